"""
Words for an object: the names under which a handler's parameter may receive it.

Takes how an author named a resource, gives the plural, the singular and the kind as far as words can tell, and
kubectl's other names of well-known kinds. Never asks a server.
"""

from __future__ import annotations

from opkit.cluster.resource import ResourceSelector

# By group: the names that mean one kind, as kubectl knows them.
_WELL_KNOWN: dict[str, tuple[str, ...]] = {
    "": (
        "componentstatuses componentstatus cs", "configmaps configmap cm", "endpoints endpoint ep",
        "events event ev", "limitranges limitrange limits limit", "namespaces namespace ns", "nodes node no",
        "persistentvolumeclaims persistentvolumeclaim pvc", "persistentvolumes persistentvolume pv", "pods pod po",
        "podtemplates podtemplate", "replicationcontrollers replicationcontroller rc",
        "resourcequotas resourcequota quota", "secrets secret", "serviceaccounts serviceaccount sa",
        "services service svc",
    ),
    "apps": (
        "deployments deployment deploy", "daemonsets daemonset ds", "statefulsets statefulset sts",
        "replicasets replicaset rs", "controllerrevisions controllerrevision",
    ),
    "batch": ("jobs job", "cronjobs cronjob cj"),
    "autoscaling": ("horizontalpodautoscalers horizontalpodautoscaler hpa",),
    "networking.k8s.io": (
        "ingresses ingress ing", "networkpolicies networkpolicy netpol", "ingressclasses ingressclass",
    ),
    "policy": ("poddisruptionbudgets poddisruptionbudget pdb",),
    "storage.k8s.io": ("storageclasses storageclass sc",),
    "scheduling.k8s.io": ("priorityclasses priorityclass pc",),
    "certificates.k8s.io": ("certificatesigningrequests certificatesigningrequest csr",),
    "apiextensions.k8s.io": ("customresourcedefinitions customresourcedefinition crd crds",),
}  # fmt: skip

# kubectl's short names of core kinds: people call any of these objects by one of them when they copy a handler.
_SHORT = frozenset(names.split()[2] for names in _WELL_KNOWN[""] if len(names.split()) > 2)

# What a plural may end in, and what its singular may end in instead.
_ENDINGS = (
    ("ies", "y"), ("ies", "ie"), ("ves", "f"), ("ves", "fe"), ("ices", "ex"), ("ices", "ix"), ("ices", "ice"),
    ("es", ""), ("es", "is"), ("s", ""), ("men", "man"), ("people", "person"), ("children", "child"),
    ("zzes", "z"), ("sses", "s"), ("ia", "ium"), ("ta", "tum"), ("eria", "erion"), ("i", "us"),
)  # fmt: skip


def plain(name: str) -> str:
    """A name as names of parameters are compared: in lower case, without what joins its words."""
    return name.lower().replace("_", "").replace("-", "")


def words_for(selector: ResourceSelector) -> frozenset[str]:
    """All words that mean an object of the resource, in their plain form."""
    name = plain(selector.name)
    words = {name, *_singulars(name), *_plurals(name)}
    for group, kinds in _WELL_KNOWN.items():
        if selector.group in (None, group):
            words.update(word for names in kinds if name in names.split() for word in names.split())
    if selector.group == "":
        words |= _SHORT
    return frozenset(word for word in words if word)


def natural(selector: ResourceSelector) -> str:
    """The word that a person would take: the singular, as far as it can be guessed."""
    name = plain(selector.name)
    for kinds in _WELL_KNOWN.values():
        for names in kinds:
            if name in names.split():
                return names.split()[1]
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if name.endswith(ending):
            return name.removesuffix(ending) + instead
    return name.removesuffix("s") if not name.endswith("ss") else name


def _singulars(name: str) -> set[str]:
    """Those that it may be the plural of."""
    return {name.removesuffix(plural) + singular for plural, singular in _ENDINGS if name.endswith(plural)}


def _plurals(name: str) -> set[str]:
    """Those that it may be the singular of."""
    endings = [(plural, singular) for plural, singular in _ENDINGS if singular and name.endswith(singular)]
    return {f"{name}s", f"{name}es", *(name.removesuffix(singular) + plural for plural, singular in endings)}
