"""Options: how large the measurements are. A quick look by default, the goals' own sizes with `--full`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from benchmarks.server import Server


@dataclasses.dataclass(frozen=True)
class Options:
    """What a row is given. `None` stands for the row's own size."""

    server: Server | None = None
    full: bool = False
    objects: int | None = None
    changes: int | None = None
    rounds: int | None = None
    peers: tuple[str, ...] = ()
    profile: Path | None = None

    def size(self, quick: int, full: int, given: int | None = None) -> int:
        return given if given is not None else full if self.full else quick

    def chosen(self, *peers: str) -> tuple[str, ...]:
        """opkit, and those of the peers that are wanted."""
        return ("opkit", *(peer for peer in peers if not self.peers or peer in self.peers))

    def profile_of(self, row: str, peer: str) -> Path | None:
        """Where the profile of opkit's process goes, if one is wanted. Peers are never profiled."""
        if self.profile is None or peer != "opkit":
            return None
        return self.profile / f"{row}.pstats"

    @property
    def target(self) -> Server:
        assert self.server is not None, "this row needs a server"
        return self.server
