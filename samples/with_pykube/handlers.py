"""
Passwords: a Secret with a random password for each Password, by `pykube`.

The parameter that is annotated with `pykube.HTTPClient` receives a client which is logged in as the operator is. The
client blocks, so the handler is a plain `def`: it runs in a thread.
"""

import base64
import secrets
import string

import pykube

import opkit

ALPHABET = string.ascii_letters + string.digits


@opkit.reconcile("example.com", "v1", "passwords")
def generate(password, spec, name, namespace, patch, logger, api: pykube.HTTPClient):
    length = spec.get("length", 24)
    existing = pykube.Secret.objects(api, namespace=namespace).get_or_none(name=name)
    if existing is None:
        pykube.Secret(api, secret_for(password, length)).create()
        logger.info("Made a password of %s characters.", length)
    # One that is there stays, whatever the length: a password in use must not change because a number did.
    patch.status["secret"] = name


def secret_for(password, length):
    """The Secret that a Password wants. It goes with the Password, by its owner reference."""
    word = "".join(secrets.choice(ALPHABET) for _ in range(length))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": password.name,
            "namespace": password.namespace,
            "ownerReferences": [owner_reference(password)],
        },
        "data": {"password": base64.b64encode(word.encode()).decode()},
    }


def owner_reference(owner):
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
