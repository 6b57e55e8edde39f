"""Words for an object: which names of parameters mean it, and what is said of all others."""

import pytest

import opkit

WEB = ("example.com", "v1", "webapps")


def plan_of(resource, name, declare=opkit.reconcile):
    """Compile one handler with a parameter of this name; the registry's plan."""
    registry = opkit.Registry()
    scope = {}
    exec(f"async def handle({name}): ...\ndef plain({name}): ...", scope)
    if declare is opkit.reconcile:
        opkit.reconcile(*resource, registry=registry)(scope["handle"])
    else:
        opkit.reconcile(*resource, registry=registry)(opkit_handler)
        declare(registry, resource, scope)
    return registry.compile()


async def opkit_handler(body): ...


def problems(resource, name, **options):
    with pytest.raises(opkit.RegistrationError) as caught:
        plan_of(resource, name, **options)
    return [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (WEB, "webapp"),
        (WEB, "webapps"),
        (WEB, "web_app"),
        (WEB, "WebApp"),
        (("WebApp",), "webapp"),
        (("WebApp",), "web_apps"),
        (("webapp",), "webapps"),
        (("networkpolicies",), "network_policy"),
        (("networking.k8s.io", "v1", "networkpolicies"), "netpol"),
        (("NetworkPolicy",), "networkpolicies"),
        (("ingresses",), "ingress"),
        (("example.com", "v1", "boxes"), "box"),
        (("example.com", "v1", "caches"), "cache"),
        (("example.com", "v1", "indices"), "index"),
        (("example.com", "v1", "matrices"), "matrix"),
        (("example.com", "v1", "knives"), "knife"),
        (("example.com", "v1", "shelves"), "shelf"),
        (("example.com", "v1", "movies"), "movie"),
        (("example.com", "v1", "buses"), "bus"),
        (("example.com", "v1", "analyses"), "analysis"),
        (("example.com", "v1", "sheep"), "sheep"),
        (("v1", "configmaps"), "cm"),
        (("v1", "secrets"), "cm"),
        (("v1", "configmaps"), "config_map"),
        (("pods",), "po"),
        (("svc",), "service"),
        (("Service",), "svc"),
        (("secrets",), "secret"),
        (("deployments.apps",), "deploy"),
        (("apps", "v1", "statefulsets"), "stateful_set"),
        (("cronjobs.batch",), "cronjob"),
    ],
)
def test_the_resources_own_words_mean_the_object(resource, name):
    """Plural, singular, kind and kubectl's other names, with underscores or without."""
    (found,) = plan_of(resource, name).resources
    assert found.controllers[0].reconcile.object_argument == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pathc", "'patch'"),
        ("sepc", "'spec'"),
        ("statsu", "'status'"),
        ("loger", "'logger'"),
        ("webap", "'webapp'"),
        ("annotation", "'annotations'"),
        ("param", "functools.partial"),
        ("started", "'attempt'"),
        ("runtime", "'attempt'"),
        ("dryrun", "admission"),
        ("stopped", "'stopping'"),
        ("api", "'cluster'"),
        ("cm", "'body' or 'webapp'"),
        ("x", "'body' or 'webapp'"),
    ],
)
def test_any_other_name_is_a_problem_that_helps(name, said):
    """An argument of another name is told, with the nearest known one, or what there is instead."""
    (message,) = problems(WEB, name)
    assert f"'{name}'" in message and said in message and "webapps.v1.example.com" in message and "\n" not in message


@pytest.mark.parametrize(
    ("declare", "right", "wrong"),
    [
        (lambda r, res, s: opkit.finalizer(*res, registry=r)(s["handle"]), "webapp", "pathc"),
        (lambda r, res, s: opkit.delete(*res, registry=r)(s["handle"]), "webapp", "pathc"),
        (lambda r, res, s: opkit.secondary("secrets", of=res, registry=r)(s["plain"]), "secret", "webapp"),
        (lambda r, res, s: opkit.poll(of=res, interval=5, each=True, registry=r)(s["handle"]), "webapp", "secret"),
    ],
    ids=["finalizer", "delete", "secondary", "poll"],
)
def test_every_decorator_with_objects(declare, right, wrong):
    """Mappers are given the secondary, by its words; polls of each object the primary."""
    plan_of(WEB, right, declare=declare)
    (message,) = problems(WEB, wrong, declare=declare)
    assert f"asks for {wrong!r}" in message


def test_names_are_not_judged_by_a_resource_that_can_not_be_read():
    """One mistake is told once."""
    (message,) = problems(("example.com", "webapps", "v1"), "x")
    assert "swapped" in message


def test_parameters_with_defaults_are_the_authors():
    """They are left to their defaults, whatever their names."""
    (found,) = plan_of(WEB, "pathc=None, started=1").resources
    assert found.controllers[0].reconcile.object_argument is None
