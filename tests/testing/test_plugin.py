"""The pytest plugin, in test sessions of its own."""

import pytest

pytest_plugins = ["pytester"]

HANDLERS = """
    import asyncio
    import opkit

    @opkit.reconcile("example.com", "v1", "webapps")
    async def reconcile(name, cluster):
        await asyncio.sleep(0)
        await notify(name)

    async def notify(name):
        pass
"""

TEST = """
    def test_it(event_injector):
        op = event_injector("handlers.py")
        op.add("webapps", "shop")
        op.settle()
        assert len(op.calls()) == 1
"""


@pytest.fixture
def session(pytester, monkeypatch):
    """Run a session in a folder with handlers; the plugin comes as it does for everybody, by its entry point."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(handlers=HANDLERS)

    def run(test, *options, apart=False):
        pytester.makepyfile(test_it=test)
        how = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        scope = "asyncio_default_fixture_loop_scope=function"  # else pytest-asyncio warns, which is an error here
        return how("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-o", scope, "-W", "error", *options)

    return run


def test_the_fixture_makes_injectors(session):
    """From a path, in a plain test."""
    session(TEST).assert_outcomes(passed=1)


def test_handlers_are_looked_up_when_they_are_called(session):
    """So pytest-mock works on the module."""
    session("""
        def test_it(event_injector, mocker):
            op = event_injector("handlers.py")
            notify = mocker.patch("handlers.notify")
            op.add("webapps", "shop")
            op.settle()
            notify.assert_called_once_with("shop")
    """).assert_outcomes(passed=1)


def test_each_test_has_a_module_of_its_own(session):
    """What one test does to it is not seen by the next."""
    session("""
        import sys

        def test_one(event_injector):
            event_injector("handlers.py")
            sys.modules["handlers"].spoilt = True

        def test_two(event_injector):
            event_injector("handlers.py")
            assert not hasattr(sys.modules["handlers"], "spoilt")
    """).assert_outcomes(passed=2)


def test_a_failing_test_shows_the_timeline_and_its_seed(session):
    """What happened when, and how to repeat it."""
    result = session(TEST.replace("== 1", "== 7"), "--opkit-seed=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*opkit timeline (repeat with --opkit-seed=3)*", "*call reconcile for default/shop*"])


def test_interleavings_run_a_test_with_many_seeds(session):
    """And only those that use the fixture."""
    result = session(TEST + "\n    def test_other(): pass\n", "--opkit-interleavings=4", "-v")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*test_it?seed=0?*", "*test_it?seed=3?*"])


def test_a_marker_asks_for_interleavings_of_one_test(session):
    """With strict markers."""
    marked = "\n    import pytest\n    @pytest.mark.opkit_interleavings(3)" + TEST
    session(marked, "--strict-markers").assert_outcomes(passed=3)


def test_one_seed_overrules_the_interleavings(session):
    """To repeat the one that failed."""
    session(TEST, "--opkit-interleavings=4", "--opkit-seed=2", "-v").assert_outcomes(passed=1)


def test_a_parametrized_test_is_multiplied(session):
    """Each of its cases with each seed."""
    cases = TEST.replace("def test_it(event_injector)", "@cases\n    def test_it(event_injector, x)")
    head = """
    import pytest
    cases = pytest.mark.parametrize("x", [1, 2])
    """
    session(head + cases, "--opkit-interleavings=3").assert_outcomes(passed=6)


def test_what_goes_wrong_unnoticed_fails_the_test_that_caused_it(session):
    """At its end: a task that was left running, by its name."""
    result = session("""
        import asyncio
        import opkit

        def test_it(event_injector):
            registry, kept = opkit.Registry(), []

            @opkit.reconcile("example.com", "v1", "webapps", registry=registry)
            async def reconcile():
                kept.append(asyncio.create_task(asyncio.sleep(1e6), name="the forgotten one"))

            op = event_injector(registry)
            op.add("webapps", "shop")
            op.drain()
    """)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*LeftRunning*the forgotten one*"])


def test_an_error_of_the_test_is_its_own(session):
    """No story of tools around it."""
    result = session(TEST.replace("assert len(op.calls()) == 1", "raise KeyError('of the test')"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*KeyError: 'of the test'*"])


def test_it_works_inside_of_an_async_test(session):
    """Whoever runs it."""
    session("""
        import asyncio

        def test_it(event_injector):
            async def main():
                op = event_injector("handlers.py")
                op.add("webapps", "shop")
                op.settle()
                assert len(op.calls()) == 1
            asyncio.run(main())
    """).assert_outcomes(passed=1)


ASYNC_TEST = """
    import pytest

    @pytest.mark.MARK
    async def test_it(event_injector):
        op = event_injector("handlers.py")
        op.add("webapps", "shop")
        op.settle()
        assert len(op.calls()) == 1
"""


@pytest.mark.parametrize("mark", ["asyncio", "anyio"])
def test_it_works_beside_the_plugins_for_async_tests(session, pytester, mark):
    """Their loop runs the test; the injector's own runs the operator, apart from it."""
    pytester.makeconftest("""
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
    """)
    session(ASYNC_TEST.replace("MARK", mark), apart=True).assert_outcomes(passed=1)


def test_it_works_beside_xdist(session):
    """Seeds multiply tests in the same order in each worker, and what failed is told across."""
    several = TEST + TEST.replace("test_it", "test_that").replace("== 1", "== 2")
    result = session(several, "-n", "2", "--opkit-interleavings", "3", apart=True)
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(["*opkit-seed*"])


def test_it_costs_nothing_where_it_is_not_used(session):
    """Nothing of opkit but the plugin itself is loaded, and nothing optional."""
    session(
        """
        import sys

        def test_it():
            heavy = ("kopf", "aiohttp", "kubernetes", "opkit.flow", "opkit.simulation", "opkit.cli")
            assert not [name for name in sys.modules if name.startswith(heavy)]
    """,
        apart=True,
    ).assert_outcomes(passed=1)


def test_a_session_without_a_real_server_skips_what_needs_one(session, monkeypatch):
    """With what to set."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    result = session("def test_it(kube_cluster): pass", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*KUBEBUILDER_ASSETS*"])


def test_the_embedded_server_is_a_fixture(session):
    """Over HTTP, for the time of a test."""
    session("""
        import urllib.request

        def test_it(embedded_cluster):
            request = urllib.request.Request(
                embedded_cluster.url + "/version", headers={"Authorization": f"Bearer {embedded_cluster.token}"}
            )
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 200
    """).assert_outcomes(passed=1)
