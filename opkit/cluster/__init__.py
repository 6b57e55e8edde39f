"""
The cluster, as the rest of opkit sees it: a small protocol, the names of resources, bodies of objects.

    resource      what a resource is, and how an author names one
    selector      label and field selectors, parsed and matched
    body          bodies: raw dicts inside, copies with shortcuts for handlers
    protocol      what opkit asks of an API server
    kopf_client   the protocol over kopf's client: the only module that knows kopf's private parts
    recorder      the protocol around another one, writing down what is sent
"""
