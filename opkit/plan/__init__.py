"""
From declarations to a plan.

    plan       the compiled value: resources, their controllers and finalizers, activities
    compiler   registry -> plan, or every problem at once
    group      the declarations of one resource, compiled together
    resources  which names mean the same resource
    options    the options of decorators, checked one by one
    functions  handlers with what they ask for, filters composed to one
    problems   the collection of what is wrong
    printing   the plan as text and as JSON, for `opkit check`

Pure: no event loop, no API client, no network. Every part is frozen.
"""
