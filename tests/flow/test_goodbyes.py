"""The delete handler: what it is told of objects that go, leave, and come back."""

import pytest

import opkit

PRIMARY = ("example.com", "v1", "webs")
BOTH = pytest.mark.parametrize("strategy", ["per-controller", "shared"])


@pytest.fixture
def registry():
    return opkit.Registry()


class Story:
    """An operator with a controller over `on=yes`, another one beside it, and what happened to the objects."""

    def __init__(self, event_injector, registry, strategy="per-controller", conflict="wait", **options):
        self.told = []
        self.fails = 0

        @opkit.reconcile(*PRIMARY, label_selector="on=yes", controller="premium", registry=registry, **options)
        async def run(name):
            self.told.append("run")

        @opkit.reconcile(*PRIMARY, label_selector="other=yes", controller="beside", registry=registry)
        async def beside(name, memo):
            memo["beside"] = memo.get("beside", 0) + 1
            self.memo = memo

        @opkit.delete(*PRIMARY, controller="premium", registry=registry)
        async def bye(reason):
            self.told.append(str(reason))
            if self.fails:
                self.fails -= 1
                raise OSError("down")

        settings = opkit.Settings()
        settings.watch.strategy = strategy
        settings.parallel.conflict = conflict
        self.op = event_injector(registry, settings)

    def add(self, **labels):
        web = self.op.add("webs", "a", labels={"on": "yes", **labels})
        self.op.settle()
        return web

    def label(self, web, value):
        self.op.modify(web, {"metadata": {"labels": {"on": value}}})
        self.op.drain()


@pytest.fixture
def story(event_injector, registry):
    return lambda *args, **options: Story(event_injector, registry, *args, **options)


@BOTH
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_one_that_leaves_again_during_its_goodbye_is_told_again(story, strategy, rounds):
    """Out, back in and out again within one run of the delete handler: the last word is that it has left."""
    one = story(strategy)
    web = one.add()
    with one.op.hold("bye"):
        one.label(web, "no")
        for _ in range(rounds):
            one.label(web, "yes")
            one.label(web, "no")
    one.op.settle()
    assert one.told[0] == "run" and one.told[-1] == "LEFT_SELECTOR"


@BOTH
@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_goodbye_is_not_repeated_after_the_return(story, strategy, fails):
    """Whatever the retries of a failed goodbye were to do: the run that came after the return has the last word."""
    one = story(strategy)
    web = one.add()
    one.fails = fails
    one.label(web, "no")
    one.label(web, "yes")
    one.op.settle()
    assert one.told[-1] == "run"


@BOTH
def test_a_goodbye_that_had_no_time_yet_is_cancelled_by_the_return(story, strategy):
    """Out and back in while another run holds the object: only the run is left of it."""
    one = story(strategy)
    web = one.add(other="yes")
    one.told.clear()
    with one.op.hold("beside"):
        one.op.trigger(web, controller="beside")
        one.label(web, "no")
        one.label(web, "yes")
    one.op.settle()
    assert one.told == ["run"]


@pytest.mark.parametrize("status", [0, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("times", [1, 3])
def test_a_living_object_is_never_told_as_deleted(story, status, times):
    """Whether it lives on is asked of the server; without an answer it is asked again."""
    one = story()
    web = one.add()
    one.op.fail("get", "webs").times(times, status=status)
    one.label(web, "no")
    one.op.settle()
    assert one.op.exists(web) and one.told == ["run", "LEFT_SELECTOR"]


def test_who_can_never_be_asked_is_unknown(story, caplog):
    """Without the right to get objects, the handler is told that nobody knows, and the log says why."""
    one = story()
    web = one.add()
    one.op.fail("get", "webs").times(1000, status=403)
    one.label(web, "no")
    one.op.settle()
    assert one.told == ["run", "UNKNOWN"]
    assert "Whether default/a is deleted, or has only left the selector of premium, can't be found out" in caplog.text


def test_one_that_is_deleted_is_told_so_even_if_the_server_can_be_asked_only_later(story):
    """The answer that there is no such object settles it."""
    one = story()
    web = one.add()
    one.op.fail("get", "webs").times(2, status=500)
    one.op.delete(web)
    one.op.settle()
    assert one.told == ["run", "DELETED"]


@BOTH
def test_what_left_while_standing_by_is_told_by_the_other_process(story, strategy):
    """Nothing of it is kept, and nothing is told after the lead is back."""
    one = story(strategy)
    web = one.add()
    one.op.lose_leadership()
    one.label(web, "no")
    one.op.advance(10)
    one.op.gain_leadership()
    one.op.settle()
    assert one.told == ["run"]
    served = next(iter(one.op._process.operator._watches))
    assert not any(pipeline.says_goodbye(web.uid) for pipeline in served.pipelines)


def test_the_lead_lost_during_a_goodbye_leaves_nothing_behind(story):
    """The run of the delete handler is cancelled; its object is forgotten, and a later return starts afresh."""
    one = story()
    web = one.add()
    with one.op.hold("bye"):
        one.label(web, "no")
        one.op.lose_leadership()
    one.op.gain_leadership()
    one.op.settle()
    served = next(iter(one.op._process.operator._watches))
    assert not any(pipeline.says_goodbye(web.uid) for pipeline in served.pipelines)
    one.label(web, "yes")
    one.label(web, "no")
    one.op.settle()
    assert one.told[-1] == "LEFT_SELECTOR"


@pytest.mark.parametrize("conflict", ["wait", "discard", "requeue-after-delay"])
def test_no_conflict_strategy_drops_a_goodbye(story, conflict):
    """It is no change of what is being run: it is told after the run that is under way."""
    one = story(conflict=conflict)
    web = one.add(other="yes")
    with one.op.hold("beside"):
        one.op.trigger(web, controller="beside")
        one.op.drain()
        one.op.delete(web)
        one.op.drain()
    one.op.settle()
    assert one.told == ["run", "DELETED"]


def test_the_memo_of_an_object_outlives_its_goodbye_to_one_controller(story):
    """Another controller still knows it, and its values with it."""
    one = story()
    web = one.add(other="yes")
    before = one.memo
    one.label(web, "no")
    one.op.settle()
    one.op.trigger(web, controller="beside")
    one.op.settle()
    assert one.memo is before and one.memo["beside"] == 2


def test_the_patch_of_one_that_lives_on_is_sent_and_that_of_one_that_is_gone_is_told(event_injector, registry, caplog):
    """Nothing that a handler wants written vanishes in silence."""

    @opkit.reconcile(*PRIMARY, label_selector="on=yes", registry=registry)
    async def reconcile():
        pass

    @opkit.delete(*PRIMARY, registry=registry)
    async def bye(patch):
        patch.status["left"] = True

    op = event_injector(registry)
    leaving, going = op.add("webs", "a", labels={"on": "yes"}), op.add("webs", "b", labels={"on": "yes"})
    op.settle()
    op.modify(leaving, {"metadata": {"labels": None}})
    op.delete(going)
    op.settle()
    assert op.get(leaving).status == {"left": True}
    assert caplog.text.count("has a patch for an object that is gone") == 1


def test_what_comes_back_while_it_is_asked_why_it_left_is_told_nothing(story):
    """The goodbye would undo what the next run does, however late the server answers."""
    one = story("per-controller")
    web = one.add()
    one.op.fail("get", "webs").delay(5)
    one.label(web, "no")
    one.op.advance(1)
    one.label(web, "yes")
    one.op.settle()
    assert one.op.now >= 5 and one.told == ["run", "run"]


def test_why_an_object_left_is_asked_once(story):
    """A delete handler that failed is told the same again, whether the server can be asked by then or not."""
    one = story("per-controller")
    web = one.add()
    one.fails = 1
    one.label(web, "no")
    assert len(one.told) == 2
    one.op.fail("get", "webs").times(100, status=500)
    one.op.settle()
    assert one.told == ["run", *[str(opkit.DeleteReason.LEFT_SELECTOR)] * 2]


def test_a_namesake_that_is_not_selected_does_not_make_a_deletion_a_leaving(story):
    """The server is asked about the object, and answers with the one that has its name now."""
    one = story("per-controller")
    web = one.add()
    one.op.delete(web)
    one.op.add("webs", "a", labels={"on": "no"})
    one.op.settle()
    assert one.told == ["run", str(opkit.DeleteReason.DELETED)]
