"""
The flow: one room per step, in the order in which a request passes.

    stream         (kind, scope, selector) -> batches of events with begin-list and end-list marks
    store          the last body of each object; turns events into additions, updates, deletions
    view           what one controller sees of a store: entering its selector, leaving it
    sieve          default filters and the author's filters -> accepted or refused, and by whom
    requests       what waits in a queue, and how two requests of one object become one
    queue          one waiting request per object, due times
    coordinator    slot and lock together, fair turns, put-back by outcome
    reconcile      one run: finalizers, arguments, the call -> report
    results        report -> patches and outcome

What these use:

    writes         the door to the API server, with a guard against useless ones; `access`: for handlers
    delivery       patches that arrive, whatever their definition becomes meanwhile
    finalizers     put on, and taken off when their handlers succeeded; `leaving`: those of objects that have left
    invocation     how a function of the author is called; `activities`: those that are not for an object
    forks          where children end that such a function has forked
    tools          what a handler may ask for: the API, other runs, Events, secondary objects
    secondary      changes of other objects that concern primary ones; `links`: which resources those are
    polling        outside state on a timer
    report         what a run amounts to, as values
    journal        what was decided about each object, and by whom
    loops          handlers that wake themselves up
    events         Kubernetes Events
    onlooker       who is told what happens, for tests and tools
    portal         the way from a thread into the loop

How they are connected:

    pipeline       the rooms of one controller
    served         the rooms of one resource, in whatever version it is served
    kind           what all versions of a resource share: locks, journal, memos
    slots          who is served together
    gates          first runs wait for what they are to see
    watches        which resources and streams there are at this moment
    runtime        what all of them share
    assembly       all of it, with the order of start and stop
"""
