"""
The flow: one room per step, in the order in which a request passes.

    stream         (kind, scope, selector) -> batches of events with begin-list and end-list marks
    store          the last body of each object; turns events into additions, updates, deletions
    sieve          default filters and the author's filters -> accepted or refused, and by whom
    requests       what waits in a queue, and how two requests of one object become one
    queue          one waiting request per object, due times
    coordinator    slot and lock together, fair turns, put-back by outcome
    reconcile      one run: finalizers, arguments, the call -> report
    results        report -> patches and outcome

Beside them: `writes` (the door to the API server, with the guard against useless writes), `finalizers`,
`invocation` (how a function of the author is called), `journal` (what was decided), `loops` (handlers that wake
themselves up), `events` (Kubernetes Events), `served` (the rooms of one resource, connected), `assembly` (all of
them, with the start and stop order).
"""
