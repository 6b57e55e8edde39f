"""A handler that uses `pykube`: a mock takes the client's place, all else is as in production."""

import base64
from pathlib import Path

import pytest

HANDLERS = Path(__file__).with_name("handlers.py")


@pytest.fixture
def secret(mocker):
    """The class of Secrets, of which there is none yet."""
    found = mocker.patch("pykube.Secret")
    found.objects.return_value.get_or_none.return_value = None
    return found


@pytest.fixture
def op(event_injector, mocker, secret):
    return event_injector(HANDLERS, clients={"pykube": mocker.sentinel.client})


def test_makes_a_password(op, secret):
    """A new Password gets a Secret with as many characters as it asks for."""
    password = op.add("passwords", "db", spec={"length": 12})
    op.drain()
    ((_, body), _) = secret.call_args
    assert len(base64.b64decode(body["data"]["password"])) == 12
    assert body["metadata"]["ownerReferences"][0]["uid"] == password.uid
    assert op.get(password).status == {"secret": "db"}


def test_leaves_a_password_that_is_there(op, secret):
    """A password in use does not change because its length does."""
    secret.objects.return_value.get_or_none.return_value = secret
    op.add("passwords", "db", spec={"length": 99})
    op.drain()
    secret.assert_not_called()
