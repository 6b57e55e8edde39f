"""What a WebApp consists of in the cluster: pure functions from a WebApp to the objects that it wants."""

import hashlib
import json

DEFAULT_IMAGE = "nginx:stable"
PORT = 80


def config_map(webapp):
    """The settings of the application, as it reads them from its environment."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(webapp),
        "data": settings(webapp),
    }


def deployment(webapp):
    """The processes. They are replaced when the settings change, which only a change of the template brings about."""
    container = {
        "name": "web",
        "image": webapp.spec.get("image", DEFAULT_IMAGE),
        "ports": [{"containerPort": PORT}],
        "envFrom": [{"configMapRef": {"name": webapp.name}}],
    }
    template = {
        "metadata": {
            "labels": _labels(webapp),
            "annotations": {"example.com/settings": _digest(settings(webapp))},
        },
        "spec": {"containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(webapp),
        "spec": {
            "replicas": replicas(webapp),
            "selector": {"matchLabels": _labels(webapp)},
            "template": template,
        },
    }


def service(webapp):
    """The address inside of the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(webapp),
        "spec": {
            "selector": _labels(webapp),
            "ports": [{"name": "http", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    }


def replicas(webapp):
    return webapp.spec.get("replicas", 1)


def settings(webapp):
    return webapp.spec.get("settings") or {}


def address(webapp):
    return f"{webapp.name}.{webapp.namespace}.svc"


def _metadata(webapp):
    # No namespace: opkit puts in that of the object which is being handled.
    return {"name": webapp.name, "labels": _labels(webapp)}


def _labels(webapp):
    return {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": webapp.name}


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
