"""Threads: what a plain function of the author leaves behind."""

import asyncio
import gc

import pytest

from opkit.flow.threads import Threads, call


def test_a_failure_that_nobody_waits_for_is_told_to_nobody():
    """Who waited for it may be gone: the loop has nothing to complain about."""
    told = []

    def fail():
        raise OSError("down")

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        threads = Threads(1, "test")
        threads.start(fail, "the function")
        assert threads.working() == ["the function"]
        await threads.wait(5)
        await asyncio.sleep(0)
        assert threads.working() == []
        threads.close()
        gc.collect()

    asyncio.run(run())
    assert told == []


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit])
def test_what_no_future_can_carry_is_another_error(error):
    """It would hang whoever waits for it."""

    def fail():
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        call(fail, {})
