"""
The embedded API server: HTTP before the store.

    server       listens, authenticates, starts and stops            <- start here
    routes       from a URL to what it names
    requests     from a URL and a method to a call of the store, and its answer
    queries      what stands behind the question mark
    bodies       request bodies in JSON, YAML and protobuf; `protobuf` has the tables, `json_yaml` reads YAML
    views        what a client wants to see of an object: itself, a table, its metadata
    streams      one watch connection
    openapi      the documents that kubectl asks for
    manifests    files of objects, applied in the right order
    state        the store in a file
"""
