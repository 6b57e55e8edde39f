"""The sizes of measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.options import Options


@pytest.mark.parametrize(
    ("options", "given", "size"),
    [
        pytest.param(Options(), None, 10, id="quick"),
        pytest.param(Options(full=True), None, 1000, id="full"),
        pytest.param(Options(full=True), 7, 7, id="given"),
    ],
)
def test_a_size_is_what_was_given_or_the_rows_own(options: Options, given: int | None, size: int) -> None:
    """A quick look by default; `--full` takes the goals' sizes; a number on the command line beats both."""
    assert options.size(10, 1000, given) == size


def test_opkit_is_always_measured() -> None:
    """Choosing peers leaves out others, never the subject."""
    assert Options(peers=("kopf on.event",)).chosen("kopf raw stream", "kopf on.event") == ("opkit", "kopf on.event")


@pytest.mark.parametrize(
    ("options", "peer", "profile"),
    [
        pytest.param(Options(), "opkit", None, id="not-wanted"),
        pytest.param(Options(profile=Path("out")), "kopf on.event", None, id="peers-never"),
        pytest.param(Options(profile=Path("out")), "opkit", Path("out/start.pstats"), id="opkit"),
    ],
)
def test_only_opkit_is_profiled(options: Options, peer: str, profile: Path | None) -> None:
    """A profile slows its process, so peers run without."""
    assert options.profile_of("start", peer) == profile
