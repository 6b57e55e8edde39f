"""
Declarations: what an author's module says, kept as it was said.

    decorators     what authors write above their functions
    declarations   the values that decorators make
    registry       the declarations of one operator
    signature      what a function asks for by the names of its parameters
    annotations    which annotations ask for a client of another library

Never judges (the compiler does), never raises for what an author wrote, never imports an event loop or an API
client.
"""
