"""
The cluster, as the rest of opkit sees it: a small protocol, the names of resources, bodies of objects.

    resource      what a resource is, and how an author names one
    selector      label and field selectors, parsed and matched
    body          bodies: raw dicts inside, copies with shortcuts for handlers
    merging       merge patches: what one would change
    protocol      what opkit asks of an API server

and the protocol over a real server (over a simulated one, it is in `opkit.simulation.cluster`):

    kopf_cluster  the protocol over HTTP: reads, writes, lists, watches
    kopf_client   authenticated requests by kopf's client: with kopf_sessions, all that knows kopf's private parts
    kopf_sessions connections, one for each of the credentials in use
    kopf_answers  what kopf's client raises, in opkit's words
    lines         from the bytes of a watch to its events
    scanning      the resources of one API group
    pacing        how long to wait before something that has ended is asked for again
    discovery     what is served of what is asked for, while it changes
    kubeconfig    kubeconfig files, merged and read as kubectl does: their fields with kubeconfig_fields, credential
                  plugins with credential_plugin, proxies with proxies
    renewal       when credentials are asked for again
    permissions   what a 403 wants: the rule to add to a Role
    clients       other libraries' clients for handlers, with the operator's credentials
"""
