"""
The private parts of kopf that opkit stands on, each by its name.

When one of these fails, the installed kopf has changed what `opkit.cluster.kopf_client` uses: adapt that module, and
widen kopf's version in setup.cfg only then.
"""

import ast
import dataclasses
import importlib
import inspect
from pathlib import Path

import kopf
import pytest

from opkit.cluster import kopf_client, kopf_sessions

USED = {
    "kopf._cogs.clients.api": ["request"],
    "kopf._cogs.clients.auth": ["APIContext"],
    "kopf._cogs.clients.errors": ["APIError", "APIUnauthorizedError", "APISessionClosed"],
    "kopf._cogs.configs.configuration": ["OperatorSettings"],
    "kopf._cogs.structs.credentials": ["KubeContext", "ConnectionInfo"],
    "kopf._cogs.structs.ephemera": ["AnyMemo", "Memo"],
    "kopf._cogs.structs.references": [
        "Resource", "NamespaceName", "match_namespace", "select_specific_namespaces",
    ],
    "kopf._core.actions.lifecycles": ["all_at_once"],
    "kopf._core.engines.activities": ["run_activity", "ActivityError"],
    "kopf._core.engines.indexing": ["OperatorIndexers"],
    "kopf._core.intents.causes": ["Activity"],
    "kopf._core.intents.piggybacking": ["has_service_account", "login_with_service_account"],
    "kopf._core.intents.registries": ["OperatorRegistry", "SmartOperatorRegistry"],
}  # fmt: skip


def changed(what):
    return f"kopf {kopf.__version__ if hasattr(kopf, '__version__') else ''} has changed: {what}"


@pytest.mark.parametrize("module, name", [(module, name) for module, names in USED.items() for name in names])
def test_kopf_has(module, name):
    """The module is there, and the name in it."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        pytest.fail(changed(f"there is no {module}"))
    assert hasattr(found, name), changed(f"there is no {name} in {module}")


@pytest.mark.parametrize("source", [kopf_client, kopf_sessions], ids=["client", "sessions"])
def test_this_contract_names_all_that_is_imported(source):
    """Each private name of kopf that the source uses stands in the table above."""
    tree = ast.parse(Path(source.__file__).read_text())
    aliases = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kopf.")
        for alias in node.names
    }
    direct = {name for name, path in aliases.items() if path.rpartition(".")[2][0].isupper()}
    used = {
        (aliases[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
        and node.value.id not in direct
    }  # fmt: skip
    used |= {tuple(aliases[name].rsplit(".", 1)) for name in direct}
    named = {(module, name) for module, names in USED.items() for name in names}
    assert used <= named, f"add to the contract: {sorted(used - named)}"


@pytest.mark.parametrize(
    "path, wanted",
    [
        ("kopf._cogs.clients.api.request",
         {"method", "url", "payload", "headers", "settings", "backoffs", "timeout", "logger", "context"}),
        ("kopf._core.engines.activities.run_activity",
         {"lifecycle", "registry", "settings", "activity", "indices", "memo"}),
        ("kopf._cogs.clients.auth.APIContext", {"info"}),
        ("kopf._cogs.structs.references.match_namespace", {"name", "pattern"}),
    ],
)  # fmt: skip
def test_kopfs_function_takes(path, wanted):
    """What opkit gives it by name."""
    module, _, name = path.rpartition(".")
    parameters = set(inspect.signature(getattr(importlib.import_module(module), name)).parameters)
    assert wanted <= parameters, changed(f"{path} takes no {sorted(wanted - parameters)}")


@pytest.mark.parametrize("name", ["close", "flush_closed_responses"])
def test_kopfs_sessions_can(name):
    """A session with its answers."""
    from kopf._cogs.clients.auth import APIContext

    assert hasattr(APIContext, name), changed(f"an APIContext has no {name}")


def test_kopfs_sessions_know_their_answers():
    """What is still read keeps its session open."""
    from kopf._cogs.clients.auth import APIContext

    assert "responses" in APIContext.__annotations__, changed("an APIContext has no responses")


@pytest.mark.parametrize("name", ["server", "priority", "expiration"])
def test_kopfs_credentials_have(name):
    """What all of them have, whatever their kind."""
    from kopf._cogs.structs.credentials import KubeContext

    assert name in {field.name for field in dataclasses.fields(KubeContext)}, changed(f"credentials have no {name}")


def test_kopfs_errors_say_status_headers_and_payload():
    """From which opkit's own errors are made."""
    from kopf._cogs.clients.errors import APIError

    error = APIError({"message": "x"}, status=409, headers={"a": "b"})
    for name in ("status", "headers", "_payload", "_status"):
        assert hasattr(error, name), changed(f"an APIError has no {name}")


def test_kopfs_resources_say_what_they_are():
    """Each field that opkit copies."""
    from kopf._cogs.structs.references import Resource

    fields = {field.name for field in dataclasses.fields(Resource)}
    wanted = {
        "group", "version", "plural", "kind", "singular", "shortcuts", "categories", "subresources", "namespaced",
        "preferred", "verbs",
    }  # fmt: skip
    assert wanted <= fields, changed(f"a Resource has no {sorted(wanted - fields)}")


def test_kopfs_settings_have_what_is_set():
    """`networking.enforce_retry_after`, so that a server that is too busy is given its time."""
    assert hasattr(kopf.OperatorSettings().networking, "enforce_retry_after"), changed(
        "there is no settings.networking.enforce_retry_after"
    )
