"""Protobuf bodies: what is in the tables is decoded, all else refused."""

import base64

import pytest

from opkit.apiserver import protobuf


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version, kind, *fields):
    return protobuf.MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, b"".join(fields)) + field(3, "")


def test_secret_with_bytes():
    """Bytes become base64; empty texts count as left out."""
    meta = field(1, "s") + field(2, "") + field(11, field(1, "k") + field(2, "v" * 300))
    decoded = protobuf.decode(body("v1", "Secret", field(1, meta), field(2, field(1, "a") + field(2, b"\x00\xff"))))
    assert decoded == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "labels": {"k": "v" * 300}},
        "data": {"a": base64.b64encode(b"\x00\xff").decode()},
    }


def test_deployment_with_nested_messages():
    """Repeated messages, numbers and booleans."""
    container = field(1, "c") + field(2, "image:1") + field(3, "run") + field(3, "now") + field(6, field(3, 80))
    template = field(1, field(11, field(1, "app") + field(2, "x"))) + field(2, field(2, container))
    spec = field(1, 3) + field(2, field(1, field(1, "app") + field(2, "x"))) + field(3, template) + field(7, 1)
    decoded = protobuf.decode(body("apps/v1", "Deployment", field(1, field(1, "d")), field(2, spec)))
    assert decoded["spec"] == {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "image:1",
                        "command": ["run", "now"],
                        "ports": [{"containerPort": 80}],
                    }
                ]
            },
        },
        "paused": True,
    }


def test_unknown_fields_are_skipped():
    """Of all wire types."""
    strange = varint(99 << 3 | 1) + b"x" * 8 + varint(98 << 3 | 5) + b"x" * 4 + field(97, 1) + field(96, "x")
    assert protobuf.decode(body("v1", "ConfigMap", strange)) == {"apiVersion": "v1", "kind": "ConfigMap"}


def test_unknown_kind_is_named():
    """The client is told to send JSON."""
    with pytest.raises(protobuf.UnknownKind, match="Job"):
        protobuf.decode(body("batch/v1", "Job"))


@pytest.mark.parametrize("cut", range(1, 24, 4))
def test_cut_bodies_are_errors(cut):
    """Wherever a body ends too early, it is a ValueError."""
    whole = body("v1", "ConfigMap", field(1, field(1, "name-of-some-length")))
    with pytest.raises(ValueError):
        protobuf.decode(whole[: len(whole) - 2 - cut])
