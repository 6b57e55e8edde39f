"""The custom resources of the behaviour suite."""

from .client import GROUP

SPEC = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
}
STRICT_SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "default": "fast"},
        "nested": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "weights": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
    },
}
STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def schema(spec=SPEC, **properties):
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": STATUS, **properties}}}


def version(name, spec=SPEC, storage=True, status=True, scale=False, columns=(), **properties):
    subresources = {**({"status": {}} if status else {}), **({"scale": SCALE} if scale else {})}
    made = {"name": name, "served": True, "storage": storage, "schema": schema(spec, **properties)}
    if subresources:
        made["subresources"] = subresources
    if columns:
        made["additionalPrinterColumns"] = list(columns)
    return made


def definition(plural, kind, *versions, scope="Namespaced", group=GROUP, short_names=()):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
                "shortNames": list(short_names),
            },
            "versions": list(versions),
        },
    }


SIZE = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
ALL = [
    definition(
        "widgets",
        "Widget",
        version("v1", scale=True, columns=[SIZE], extra={"type": "string"}),
        short_names=["wd"],
    ),
    definition("gadgets", "Gadget", version("v1", status=False)),
    definition("planets", "Planet", version("v1"), scope="Cluster"),
    definition("stricts", "Strict", version("v1", spec=STRICT_SPEC)),
    definition("doubles", "Double", version("v1"), version("v1beta1", storage=False)),
]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
