"""
A cluster in memory: a store that keeps the rules of a real API server, and what is built right on it.

Everything but `cluster` and its `bell` is pure: no I/O, no event loop, no clock and no randomness of its own.
Each write is one synchronous step in which the version is assigned, the object stored, the history extended
and the watchers told.

    store        the face: get, list, create, replace, patch, apply, delete, watch      <- start here
    kinds        what a kind is: names, versions, subresources; `builtins` lists those that are always there
    records      stored objects as JSON text, and the changes that watchers see
    shelf        the objects of one kind, in order, with their history and their watchers
    watchers     what a watch selects, and its bounded buffer
    lists        pages of a snapshot, continuation tokens
    writes       from a request's body to a record: metadata, status split, generation, no-ops
    metadata     the rules of `metadata`; `names` those of names, labels and annotations
    schema       pruning and defaults by a custom resource's schema; `validation` is the rest of it
    strategies   what built-in kinds do on their own (Secrets, Namespaces, Leases ...); `workloads` those with
                 Pods; `shapes` which types stand where
    patches      merge and JSON patches; `strategic` merge patches for built-in kinds
    fieldsets    sets of fields as in `managedFields`; `managers` keeps them; `apply` is server-side apply
    deletion     finalizers, preconditions, propagation
    garbage      owner references and namespaces, collected where that is wanted
    definitions  custom resource definitions; `establishment` serves what they define
    scale        the scale subresource
    discovery, tables        documents for clients; `jsonpath` reads what columns name
    topology     what is served of what an operator asks for
    refusals     the errors, with the status codes and reasons of a real server
    faults       what goes wrong on demand, for tests
    cluster      `opkit.cluster.protocol.Cluster` over the store
"""
