"""The compiler: what becomes a plan, and every problem at once."""

import datetime

import pytest

import opkit
from opkit.errors import RegistrationError

WEB = ("example.com", "v1", "webapps")


@pytest.fixture
def registry():
    with opkit.Registry().as_default() as registry:
        yield registry


@pytest.fixture
def web(registry):
    """A resource with one controller, named `web`."""

    @opkit.reconcile(*WEB)
    def web(webapp): ...

    return web


def cleanup(body):
    """Stands for an author's function."""


def fetch(settings):
    """Stands for an author's poll."""


def problems(registry, settings=None):
    """The messages of all problems."""
    with pytest.raises(RegistrationError) as caught:
        registry.compile(settings)
    return [problem.message for problem in caught.value.problems]


def only_resource(registry):
    (resource,) = registry.compile().resources
    return resource


def only_controller(registry):
    (controller,) = only_resource(registry).controllers
    return controller


def test_controller_is_named_after_its_function(registry, web):
    """Without `controller=`, the function's name is the controller's."""
    assert only_controller(registry).name == "web"


def test_handler_knows_its_function_and_its_place(registry, web):
    """A handler in the plan names the function, its file and its line."""
    handler = only_controller(registry).reconcile
    assert (handler.function, handler.name, handler.object_argument) == (web, "web", "webapp")
    assert (handler.file, handler.line) == (__file__, web.__code__.co_firstlineno)


def test_options_reach_the_plan(registry):
    """Every option of `@opkit.reconcile` is in the plan, checked and in one form."""
    retry = opkit.Retry(attempts=3)

    @opkit.reconcile(
        *WEB,
        controller="dns",
        label_selector={"tier": "web", "app": "shop"},
        default_filters=False,
        strategy=opkit.ReconcileStrategy.BY_RESOURCE_VERSION,
        owns=["configmaps", ("apps", "v1", "deployments"), "configmaps"],
        retry=retry,
        timeout=datetime.timedelta(minutes=1),
        resync=60,
    )
    async def sync(webapp): ...

    controller = only_controller(registry)
    assert (controller.name, controller.label_selector) == ("dns", "app=shop,tier=web")
    assert [str(one) for one in controller.owns] == ["configmaps", "deployments.v1.apps"]
    assert (controller.default_filters, controller.strategy) == (
        False,
        opkit.ReconcileStrategy.BY_RESOURCE_VERSION,
    )
    assert (controller.retry, controller.timeout, controller.resync, controller.resync_set) == (
        retry,
        60,
        60,
        True,
    )
    assert controller.reconcile.is_async


def test_what_is_not_given_comes_from_the_settings(registry, web):
    """Options that are not given are None in the plan."""
    controller = only_controller(registry)
    assert (controller.strategy, controller.retry, controller.timeout, controller.resync) == (None,) * 4
    assert (controller.default_filters, controller.resync_set, controller.owns) == (True, False, ())


@pytest.mark.parametrize("value", ["", {}, None], ids=repr)
def test_empty_selectors_are_none(registry, value):
    """A selector that selects everything is none."""
    opkit.reconcile(*WEB, label_selector=value, field_selector=value)(cleanup)
    controller = only_controller(registry)
    assert (controller.label_selector, controller.field_selector) == (None, None)


def test_filters_compose_in_their_order(registry):
    """Declared filters come first, in the order of the module, then those in the options."""

    @opkit.filter.update(*WEB)
    def first(new, old): ...

    @opkit.filter.generic(*WEB, controller="b")
    def only_b(body): ...

    @opkit.filter.update
    def third(new, old): ...

    opkit.reconcile(*WEB, controller="a", on_update=third, label_selector="a=1")(cleanup)
    opkit.reconcile(*WEB, controller="b", label_selector="a=2")(cleanup)
    opkit.filter.update(*WEB)(lambda new, old: True)
    a, b = only_resource(registry).controllers
    assert str(a.filters.update).startswith("first & <lambda") and str(a.filters.update).endswith("& third")
    assert (a.filters.generic, str(b.filters.generic)) == (None, "only_b")
    assert (a.filters.add, a.filters.delete) == (None, None)


def test_generic_filter_in_a_specific_option(registry):
    """A generic filter, or a plain function, serves in any option."""
    paused = opkit.filter.generic(lambda body: False)
    opkit.reconcile(*WEB, on_update=~paused, on_delete=paused, on_add=lambda body: True)(cleanup)
    filters = only_controller(registry).filters
    assert filters.update.accepts({}, {}) and not filters.delete.accepts({}, False) and filters.add.accepts({})


def test_filter_value_under_a_declaring_decorator(registry, web):
    """A composed filter can be declared for a resource."""
    paused = opkit.filter.generic(lambda body: False)
    expression = opkit.filter.update(lambda new, old: True) & ~paused
    assert opkit.filter.update(*WEB)(expression) is expression
    assert only_controller(registry).filters.update is expression


@pytest.mark.parametrize(
    "words, name",
    [
        pytest.param(WEB, "example.com/drop-dns-record", id="full"),
        pytest.param(("webapps",), "example.com/drop-dns-record", id="bare-with-the-group-known-from-elsewhere"),
    ],
)
def test_finalizer_default_name(registry, web, words, name):
    """A finalizer is named by the group and the function's name, with dashes."""

    @opkit.finalizer(*words)
    def drop_dns_record(body): ...

    (finalizer,) = only_resource(registry).finalizers
    assert (finalizer.name, finalizer.when) == (name, None)


def test_finalizers_run_by_order_then_position(registry, web):
    """`order` first, then the position in the module."""
    for name, order in (("x/a", 0), ("x/b", 1), ("x/c", -1), ("x/d", 0)):
        opkit.finalizer(*WEB, name=name, order=order)(cleanup)
    assert [one.name for one in only_resource(registry).finalizers] == ["x/c", "x/a", "x/d", "x/b"]


def test_delete_handler_belongs_to_the_only_controller(registry, web):
    """A delete handler without `controller=` belongs to the resource's only controller."""
    opkit.delete("webapps")(cleanup)
    assert only_controller(registry).delete.function is cleanup


def test_delete_handler_belongs_to_the_named_controller(registry, web):
    """With several controllers, it belongs to the named one."""
    opkit.reconcile(*WEB, controller="other")(cleanup)
    opkit.delete(*WEB, controller="other")(cleanup)
    first, second = only_resource(registry).controllers
    assert (first.delete, second.delete.function) == (None, cleanup)


def test_secondaries_and_polls_belong_to_their_resource(registry, web):
    """What is secondary to a resource, or polled for it, stands with it."""
    opkit.secondary("v1", "secrets", of="webapps", on_add=lambda body: True)(cleanup)
    opkit.poll(of=WEB, interval=30)(fetch)
    opkit.poll(of=WEB, interval=datetime.timedelta(seconds=5), each=True)(cleanup)
    resource = only_resource(registry)
    (secondary,) = resource.secondaries
    assert (str(secondary.resource), secondary.of) == ("secrets.v1", resource.resource)
    assert secondary.mapper.function is cleanup and secondary.filters.add is not None
    assert [(poll.interval, poll.each) for poll in resource.polls] == [(30, False), (5, True)]


def test_activities(registry, web):
    """Startup, shutdown, login and probes are in the plan."""
    for decorator in (opkit.startup, opkit.shutdown, opkit.login):
        decorator()(lambda **_: None)
    opkit.probe(id="db")(lambda **_: None)

    @opkit.probe()
    def queue(settings): ...

    plan = registry.compile()
    assert [len(one) for one in (plan.startup, plan.shutdown, plan.logins)] == [1, 1, 1]
    assert [name for name, _ in plan.probes] == ["db", "queue"]


def test_one_resource_named_in_several_ways_is_one(registry, web):
    """A bare name joins what says more about it; the plan holds the most that was said."""
    opkit.reconcile("webapps", controller="other")(cleanup)
    resource = only_resource(registry)
    assert str(resource.resource) == "webapps.v1.example.com"
    assert {controller.resource for controller in resource.controllers} == {resource.resource}


def test_module_global_is_looked_up_when_called(registry):
    """A module's global function is resolved at each call, so that a test can patch it in its module."""
    namespace = {"opkit": opkit, "__name__": "handlers"}
    exec("@opkit.reconcile('webapps')\ndef web(body): return 'original'", namespace)
    handler = only_controller(registry).reconcile
    assert handler.resolve() is namespace["web"]
    namespace["web"] = patched = lambda body: "patched"
    assert handler.resolve() is patched


def test_overwritten_global_is_called_all_the_same(registry):
    """Two functions of one name, as kopf users write them: each resource keeps its own."""
    namespace = {"opkit": opkit, "__name__": "handlers"}
    source = "@opkit.reconcile('{0}')\ndef web(body): return '{0}'\n"
    exec(source.format("apples") + source.format("pears"), namespace)
    handlers = [resource.controllers[0].reconcile for resource in registry.compile().resources]
    assert [handler.resolve()(None) for handler in handlers] == ["apples", "pears"]


BAD_OPTIONS = [
    pytest.param({"timeout": -1}, "timeout must be finite and not negative, not -1", id="negative-timeout"),
    pytest.param({"timeout": 0}, "timeout must be more than zero seconds", id="zero-timeout"),
    pytest.param({"timeout": "5"}, "timeout must be seconds or a timedelta, not '5'", id="text-timeout"),
    pytest.param({"timeout": True}, "timeout must be seconds or a timedelta, not True", id="bool-timeout"),
    pytest.param({"resync": float("nan")}, "resync must be finite and not negative, not nan", id="nan-resync"),
    pytest.param({"resync": float("inf")}, "resync must be finite and not negative, not inf", id="endless-resync"),
    pytest.param({"resync": 0}, "resync must be more than zero seconds, not 0; None turns it off", id="zero-resync"),
    pytest.param({"retry": 3}, "retry is an opkit.Retry(...), not 3", id="retry"),
    pytest.param({"strategy": "always"}, "strategy is opkit.ReconcileStrategy.BY_GENERATION or", id="strategy"),
    pytest.param({"default_filters": 1}, "default_filters is True or False, not 1", id="default-filters"),
    pytest.param({"controller": ""}, "controller is a text that is not empty, not ''", id="empty-controller"),
    pytest.param({"controller": 7}, "controller is a text that is not empty, not 7", id="controller"),
    pytest.param({"label_selector": "a in (b"}, "label_selector='a in (b'", id="label-selector"),
    pytest.param({"label_selector": ["a=b"]}, "label_selector is a text in Kubernetes' syntax", id="label-list"),
    pytest.param({"field_selector": "metadata.name"}, "field_selector='metadata.name'", id="field-selector"),
    pytest.param(
        {"label_selector": "a=b", "field_selector": "metadata.name=x"},
        "label_selector and field_selector don't go together; use two controllers",
        id="both-selectors",
    ),
    pytest.param({"owns": 5}, "owns is a list of resources", id="owns-number"),
    pytest.param({"owns": [5]}, "a resource in owns is a resource, as in", id="owns-numbers"),
    pytest.param({"owns": ("apps/v1", "deployments")}, "give group/version and name as two words", id="owns-words"),
    pytest.param({"on_update": 5}, "on_update is a filter or a function, not 5", id="no-filter"),
    pytest.param(
        {"on_add": opkit.filter.update(lambda new, old: True)},
        "on_add wants a filter of kind add or generic",
        id="other-kind",
    ),
    pytest.param({"on_update": lambda body: True}, "is called as (new, old)", id="filter-arguments"),
]


@pytest.mark.parametrize("options, message", BAD_OPTIONS)
def test_bad_option(registry, options, message):
    """A bad option is one problem that says what is expected."""
    opkit.reconcile(*WEB, **options)(cleanup)
    (problem,) = problems(registry)
    assert message in problem


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="none"),
        pytest.param(("",), id="empty"),
        pytest.param((1,), id="number"),
        pytest.param(("a", "b", "c", "d"), id="too-many"),
        pytest.param(("example.com/v1",), id="one-word-with-slash"),
    ],
)
def test_bad_resource(registry, words):
    """A resource that can't be read is a problem."""
    opkit.reconcile(*words)(cleanup)
    assert len(problems(registry)) == 1


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("cleanup", id="no-domain"),
        pytest.param("/cleanup", id="empty-domain"),
        pytest.param("example.com/", id="empty-name"),
        pytest.param("example.com/" + "x" * 64, id="too-long"),
        pytest.param("Example.com/x", id="upper-case-domain"),
        pytest.param("example..com/x", id="empty-part"),
        pytest.param("example.com/-x", id="leading-dash"),
        pytest.param("example.com/x y", id="space"),
        pytest.param("example.com/x\n", id="newline"),
        pytest.param("a/b/c", id="two-slashes"),
        pytest.param(7, id="number"),
    ],
)
def test_bad_finalizer_name(registry, web, name):
    """A finalizer is named domain/name, with at most 63 characters after the slash."""
    opkit.finalizer(*WEB, name=name)(cleanup)
    (problem,) = problems(registry)
    assert "is not a finalizer's name: it is domain/name" in problem


def test_longest_finalizer_name(registry, web):
    """63 characters after the slash are allowed."""
    opkit.finalizer(*WEB, name="example.com/" + "x" * 63)(cleanup)
    assert only_resource(registry).finalizers


@pytest.mark.parametrize(
    "words, where",
    [
        pytest.param(("v1", "configmaps"), "of the core group", id="core"),
        pytest.param(("configmaps",), "of the core group", id="core-by-its-bare-name"),
        pytest.param(("things",), "whose group is not named here", id="unknown-group"),
    ],
)
def test_finalizer_needs_a_name_without_a_group(registry, words, where):
    """Without a group there is no default name."""
    opkit.reconcile(*words)(lambda body: None)
    opkit.finalizer(*words)(cleanup)
    (problem,) = problems(registry)
    assert f"a finalizer for a resource {where} needs a name" in problem


def test_finalizer_name_twice(registry, web):
    """One finalizer name twice on one resource is a problem that names the first place."""
    opkit.finalizer(*WEB, name="example.com/a")(cleanup)
    opkit.finalizer("webapps", name="example.com/a")(cleanup)
    (problem,) = problems(registry)
    assert "has a finalizer 'example.com/a' already" in problem and __file__ in problem


@pytest.mark.parametrize(
    "declare, noun",
    [
        (lambda: opkit.delete("pods")(cleanup), "delete handler"),
        (lambda: opkit.finalizer("pods", name="a/b")(cleanup), "finalizer"),
        (lambda: opkit.filter.add("pods")(cleanup), "filter"),
        (lambda: opkit.secondary("secrets", of="pods")(cleanup), "mapper of secondary objects"),
        (lambda: opkit.poll(of="pods", interval=5)(fetch), "poll"),
    ],
    ids=["delete", "finalizer", "filter", "secondary", "poll"],
)
def test_nothing_without_a_reconcile_handler(registry, web, declare, noun):
    """What belongs to a resource without a reconcile handler is a problem that says which there are."""
    declare()
    (problem,) = problems(registry)
    assert problem.startswith(f"a {noun} for pods, which has no reconcile handler")
    assert "webapps.v1.example.com" in problem


def test_strays_are_checked_all_the_same(registry, web):
    """What else is wrong with them is told at once, not after the first repair."""
    opkit.finalizer("pods", name="bad")(lambda old: None)
    assert len(problems(registry)) == 3


@pytest.mark.parametrize(
    "declare",
    [
        lambda: opkit.delete(*WEB, controller="nope")(cleanup),
        lambda: opkit.filter.generic(*WEB, controller="nope")(cleanup),
    ],
    ids=["delete", "filter"],
)
def test_controller_that_does_not_exist(registry, web, declare):
    """`controller=` must name a controller of that resource."""
    declare()
    (problem,) = problems(registry)
    assert "has no controller 'nope'; there are: web" in problem


def test_delete_handler_must_say_whose_it_is(registry, web):
    """With several controllers, a delete handler names one."""
    opkit.reconcile(*WEB, controller="other")(cleanup)
    opkit.delete(*WEB)(cleanup)
    (problem,) = problems(registry)
    assert "must say whose it is" in problem and "web, other" in problem


def test_second_delete_handler(registry, web):
    """A controller has one delete handler."""
    opkit.delete(*WEB)(cleanup)
    opkit.delete(*WEB, controller="web")(cleanup)
    (problem,) = problems(registry)
    assert "has a delete handler already" in problem


def test_two_controllers_of_one_name(registry, web):
    """Controllers of one resource have different names."""
    opkit.reconcile("webapps", controller="web")(cleanup)
    (problem,) = problems(registry)
    assert "has a controller 'web' already" in problem


def test_same_handler_over_the_same_objects(registry):
    """One handler twice with one resource and equal selectors is a problem, however they are written."""
    opkit.reconcile(*WEB, controller="a", label_selector="a=1,b=2")(cleanup)
    opkit.reconcile(*WEB, controller="b", label_selector={"b": "2", "a": "1"})(cleanup)
    (problem,) = problems(registry)
    assert "is registered for webapps.v1.example.com with the same selectors already" in problem


def test_same_handler_with_other_selectors(registry):
    """One handler may serve two controllers with different selectors."""
    opkit.reconcile(*WEB, controller="a", label_selector="a=1")(cleanup)
    opkit.reconcile(*WEB, controller="b", label_selector="a=2")(cleanup)
    assert len(only_resource(registry).controllers) == 2


def test_own_queue_serves_one_controller(registry, web):
    """With a queue of the author's own, a second controller of a resource is a problem."""
    opkit.reconcile(*WEB, controller="other")(cleanup)
    settings = opkit.Settings()
    assert len(registry.compile(settings).resources[0].controllers) == 2
    settings.queue.strategy = object()
    (problem,) = problems(registry, settings)
    assert "a second controller for webapps.v1.example.com" in problem and "QueueStrategy.IN_MEMORY" in problem


async def _async_filter(*args):
    return True


@pytest.mark.parametrize(
    "declare",
    [
        lambda: opkit.filter.update(*WEB)(_async_filter),
        lambda: opkit.reconcile(*WEB, controller="x", generic=_async_filter)(cleanup),
        lambda: opkit.reconcile(*WEB, controller="x", generic=~opkit.filter.generic(_async_filter))(cleanup),
        lambda: opkit.finalizer(*WEB, when=_async_filter)(cleanup),
    ],
    ids=["declared", "option", "composed", "when"],
)
def test_async_filter(registry, web, declare):
    """A coroutine function is no filter, wherever it stands."""
    declare()
    (problem,) = problems(registry)
    assert "_async_filter is async; filters are synchronous" in problem


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"interval": 5}, "of is a resource, as in", id="of-what"),
        pytest.param({"of": "webapps"}, "needs interval=, in seconds", id="no-interval"),
        pytest.param({"of": "webapps", "interval": -5}, "interval must be finite", id="negative-interval"),
        pytest.param({"of": "webapps", "interval": 5, "each": "yes"}, "each is True or False", id="each"),
    ],
)
def test_bad_poll(registry, web, options, message):
    """A poll names its resource and its interval."""
    opkit.poll(**options)(fetch)
    (problem,) = problems(registry)
    assert message in problem


def test_probe_twice(registry, web):
    """Probes have different names."""
    opkit.probe(id="x")(lambda: 1)
    opkit.probe(id="x")(lambda: 2)
    assert problems(registry) == ["there is a probe 'x' already; name this one by id="]


@pytest.mark.parametrize("order", [1.5, "1", True], ids=repr)
def test_bad_order(registry, web, order):
    """`order` is a whole number."""
    opkit.finalizer(*WEB, order=order)(cleanup)
    (problem,) = problems(registry)
    assert problem.startswith("order is a whole number")


@pytest.mark.parametrize("declare", [lambda: None, lambda: opkit.startup()(lambda: None)], ids=["empty", "startup"])
def test_no_handlers(registry, declare):
    """Without a reconcile handler there is nothing to do: that is a problem too."""
    declare()
    (problem,) = problems(registry)
    assert problem.startswith("no handlers")


def test_ambiguous_resource(registry):
    """A bare name that may be one of two resources must say which."""
    opkit.reconcile("one.example.com", "v1", "webapps")(cleanup)
    opkit.reconcile("two.example.com", "v1", "webapps")(cleanup)
    opkit.delete("webapps")(cleanup)
    (problem,) = problems(registry)
    assert "webapps may be webapps.v1.one.example.com or webapps.v1.two.example.com" in problem


def test_eight_mistakes_are_eight_problems(registry):
    """All problems are told at once, each with its file and line, in the order of the file."""
    source = """
@opkit.reconcile("example.com", "v1", "webapps", timeout=-1)
def one(webapp, spec): ...
@opkit.reconcile("example.com", "v1", "webapps", label_selector="a=b", field_selector="metadata.name=x")
def two(webapp): ...
@opkit.reconcile("example.com", "v1", "webapps", controller="one")
def three(webapp): ...
@opkit.delete("example.com", "v1", "webapps")
def four(body): ...
@opkit.finalizer("example.com", "v1", "webapps", name="cleanup")
def five(webapp): ...
@opkit.filter.update("example.com", "v1", "webapps")
async def six(new, old): ...
@opkit.filter.add("pods")
def seven(body): ...
@opkit.startup()
def eight(body): ...
"""
    exec(compile(source, "handlers.py", "exec"), {"opkit": opkit})
    with pytest.raises(RegistrationError) as caught:
        registry.compile()
    assert [(one.file, one.line) for one in caught.value.problems] == [
        ("handlers.py", line) for line in (2, 4, 6, 8, 10, 12, 14, 16)
    ]
