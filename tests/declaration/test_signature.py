"""Signatures: what a function asks for, and what is wrong with it."""

import functools

import pytest

from opkit.declaration.signature import Role, filter_problems, is_async, read_signature, source_of
from opkit.filter.expressions import FilterKind, FunctionFilter

OBJECT = {"body", "spec", "meta", "status", "name", "namespace", "uid", "labels", "annotations", "resource"}
RUN = {"patch", "attempt", "retry", "trigger", "requeue", "secondary", "cluster", "event", "stopping"}
OPERATOR = {"logger", "memo", "settings"}


def asking(*names):
    """A function with parameters of these names."""
    namespace = {}
    exec(f"def f({', '.join(names)}): ...", namespace)
    return namespace["f"]


class Service:
    def method(self, webapp, spec): ...

    @staticmethod
    def static(webapp, spec): ...

    @classmethod
    def of_class(cls, webapp, spec): ...

    async def asynchronous(self, webapp): ...


class Callable:
    def __call__(self, webapp, spec): ...


class AsyncCallable:
    async def __call__(self, webapp): ...


@pytest.mark.parametrize(
    "role, known",
    [
        (Role.RECONCILE, OBJECT | RUN | OPERATOR),
        (Role.FINALIZER, OBJECT | RUN | OPERATOR),
        (Role.DELETE, OBJECT | RUN | OPERATOR | {"reason"}),
        (Role.SECONDARY, OBJECT | OPERATOR),
        (Role.POLL, OPERATOR | {"cluster", "stopping"}),
        (Role.POLL_EACH, OBJECT | OPERATOR | {"cluster", "stopping"}),
        (Role.ACTIVITY, OPERATOR),
    ],
)
def test_known_names_are_passed(role, known):
    """All names known in a role may be asked for, and no others are known."""
    signature = read_signature(asking(*sorted(known)), role)
    assert (signature.arguments, signature.object_argument, signature.problems) == (known, None, ())


def test_only_what_is_asked_for_is_passed():
    """A handler gets nothing that its signature does not name."""
    signature = read_signature(asking("spec"), Role.RECONCILE)
    assert signature.arguments == {"spec"} and not signature.takes_all


def test_kwargs_takes_everything():
    """`**_` gets all that the runtime knows."""
    assert read_signature(asking("spec", "**_"), Role.RECONCILE).takes_all


def _never_looks(spec, **_): ...


async def _never_looks_async(spec, **_):
    return [spec for _key in spec]


def _loops_over_itself(**kwargs):
    return [kwargs]


def _passes_on(**kwargs):
    return dict(**kwargs)


def _closes_over(**kwargs):
    return lambda: kwargs


def _takes_locals(spec, **kwargs):
    return locals()


@functools.wraps(_never_looks)
def _wraps(*args, **kwargs): ...


@pytest.mark.parametrize(
    "function, reads",
    [
        pytest.param(_never_looks, False, id="never"),
        pytest.param(_never_looks_async, False, id="never-async"),
        pytest.param(_loops_over_itself, True, id="mentions"),
        pytest.param(_passes_on, True, id="passes-on"),
        pytest.param(_closes_over, True, id="closes-over"),
        pytest.param(_takes_locals, True, id="locals"),
        pytest.param(_wraps, True, id="wrapper"),
        pytest.param(functools.partial(_never_looks), True, id="partial"),
        pytest.param(Service().method, False, id="no-kwargs"),
    ],
)
def test_kwargs_that_no_code_looks_at_are_known_as_such(function, reads):
    """Where that can't be told, somebody looks: the values have to be there then."""
    signature = read_signature(function, Role.RECONCILE)
    assert not signature.problems
    assert signature.reads_rest is reads


@pytest.mark.parametrize(
    "names, receiver",
    [
        pytest.param(["webapp"], "webapp", id="alone"),
        pytest.param(["spec", "webapp", "logger"], "webapp", id="among-known-ones"),
        pytest.param(["webapp", "dry_run=False"], "webapp", id="defaults-are-the-author's"),
        pytest.param(["*", "webapp"], "webapp", id="keyword-only"),
        pytest.param(["spec", "dry_run=False"], None, id="none"),
    ],
)
def test_one_other_parameter_receives_the_object(names, receiver):
    """One parameter of another name, without a default, receives the object."""
    signature = read_signature(asking(*names), Role.RECONCILE)
    assert (signature.object_argument, signature.problems) == (receiver, ())


def test_two_other_parameters_are_a_problem():
    """Only one parameter may receive the object; the problem names both, and the names that are known."""
    (problem,) = read_signature(asking("webapp", "thing"), Role.RECONCILE).problems
    assert "'webapp' and 'thing'" in problem and "attempt body cluster" in problem


@pytest.mark.parametrize("name", ["old", "new", "diff", "type"])
@pytest.mark.parametrize("role", [Role.RECONCILE, Role.FINALIZER, Role.DELETE])
def test_edge_triggered_names_are_refused(role, name):
    """What has changed is not passed to handlers, not even with a default; the problem explains why."""
    for parameter in (name, f"{name}=None"):
        (problem,) = read_signature(asking("body", parameter), role).problems
        assert f"asks for {name!r}" in problem and "level-triggered" in problem


@pytest.mark.parametrize("role", [Role.RECONCILE, Role.FINALIZER])
def test_reason_is_for_delete_handlers(role):
    """Only a delete handler is told why an object is gone."""
    (problem,) = read_signature(asking("reason"), role).problems
    assert "only delete handlers have" in problem


@pytest.mark.parametrize("role", [Role.ACTIVITY, Role.POLL])
def test_no_object_where_there_is_none(role):
    """What belongs to no object can't ask for one."""
    (problem,) = read_signature(asking("settings", "webapp"), role).problems
    assert "asks for 'webapp', unknown here" in problem


def test_positional_only_parameters_are_a_problem():
    """Arguments are passed by name."""
    (problem,) = read_signature(asking("body", "/"), Role.RECONCILE).problems
    assert "positional-only" in problem


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(Service().method, id="bound-method"),
        pytest.param(Service.static, id="static-method"),
        pytest.param(Service.__dict__["static"], id="static-method-in-its-class"),
        pytest.param(Service.of_class, id="class-method"),
        pytest.param(functools.partial(lambda dns, webapp, spec: None, "x"), id="partial-positional"),
        pytest.param(functools.partial(lambda webapp, spec, dns: None, dns="x"), id="partial-keyword"),
        pytest.param(functools.wraps(asking("webapp", "spec"))(lambda *args, **kwargs: None), id="wrapped"),
        pytest.param(Callable(), id="object"),
    ],
)
def test_other_callables_work_as_functions_do(function):
    """Methods, partials, wrapped functions and callable objects are read by what is left to pass."""
    signature = read_signature(function, Role.RECONCILE)
    assert (signature.object_argument, signature.arguments, signature.problems) == ("webapp", {"spec"}, ())


def test_unbound_method_is_a_problem():
    """A function that takes `self` would get the object as `self`: the problem says what to decorate."""
    (problem,) = read_signature(Service.method, Role.RECONCILE).problems
    assert "takes 'self'" in problem and "instance.method" in problem


def _generator(body):
    yield


async def _async_generator(body):
    yield


@pytest.mark.parametrize(
    "function, form",
    [(_generator, "a generator"), (_async_generator, "a generator"), (Service, "a class")],
    ids=["generator", "async-generator", "class"],
)
def test_what_does_not_run_when_called_is_a_problem(function, form):
    """Calling a generator runs nothing: it is no handler."""
    assert any(f"is {form}" in problem for problem in read_signature(function, Role.RECONCILE).problems)


async def _coroutine(body): ...


@pytest.mark.parametrize(
    "function, expected",
    [
        pytest.param(_coroutine, True, id="async-def"),
        pytest.param(functools.partial(_coroutine), True, id="partial"),
        pytest.param(staticmethod(_coroutine), True, id="static-method"),
        pytest.param(Service().asynchronous, True, id="method"),
        pytest.param(AsyncCallable(), True, id="object"),
        pytest.param(Callable(), False, id="plain-object"),
        pytest.param(asking("body"), False, id="def"),
    ],
)
def test_async_is_seen_through_wrappers(function, expected):
    """Whether a call gives a coroutine is told for all forms of functions."""
    assert is_async(function) is expected


def test_mapper_must_be_synchronous():
    """The mapper of secondary objects is called for each event."""
    (problem,) = read_signature(_coroutine, Role.SECONDARY).problems
    assert "must be synchronous" in problem


def test_source_is_where_the_function_is_written():
    """The source of a wrapped function is the inner one's; what has no code has none."""
    first = Service.method.__code__.co_firstlineno
    assert source_of(functools.partial(Service().method)) == (__file__, first)
    assert source_of(len) is None


def filter_problem(kind, function):
    return filter_problems(FunctionFilter(FilterKind(kind), function))


@pytest.mark.parametrize(
    "kind, function",
    [
        ("add", asking("body")),
        ("add", asking("body", "strict=True")),
        ("update", asking("new", "old")),
        ("update", asking("*args")),
        ("delete", asking("body")),
        ("delete", asking("body", "final_state_unknown")),
        ("generic", len),
        ("generic", functools.partial(asking("key", "body"), "x")),
    ],
)
def test_filters_that_can_be_called_have_no_problem(kind, function):
    """A filter takes the positional arguments of its kind."""
    assert filter_problem(kind, function) == []


@pytest.mark.parametrize(
    "kind, function, message",
    [
        ("add", asking("new", "old"), "the add filter f(new, old) is called as (body)"),
        ("update", asking("body"), "the update filter f(body) is called as (new, old)"),
        ("delete", asking("a", "b", "c"), "is called as (body) or (body, final_state_unknown)"),
        ("delete", asking(), "is called as (body) or (body, final_state_unknown)"),
        ("generic", asking("body", "*", "key"), "is called as (body)"),
        ("generic", _coroutine, "the filter _coroutine is async"),
        ("generic", AsyncCallable(), "is async"),
        ("generic", _generator, "is a generator"),
    ],
)
def test_filters_that_can_not_be_called_are_a_problem(kind, function, message):
    """A wrong number of arguments, or no synchronous function: a problem that says how filters are called."""
    (problem,) = filter_problem(kind, function)
    assert message in problem
