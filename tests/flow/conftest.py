"""What the tests of the flow share: a registry of their own, and a loop whose time is virtual."""

import asyncio

import pytest

import opkit
from opkit.testing.virtual import VirtualLoop


@pytest.fixture
def registry():
    """An empty registry: what a test declares is seen by nobody else."""
    return opkit.Registry()


@pytest.fixture
def loop():
    """An event loop in virtual time; what is left in it at the end is cancelled."""
    loop = VirtualLoop()
    yield loop
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_now()
    loop.close()
