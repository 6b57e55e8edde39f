"""
Faults on demand: what an API server and the way to it can do wrong, for tests.

A plan is asked by whoever serves requests (the simulated cluster, the embedded server) before each of them,
and told of each stream that is open. It decides; carrying out is the asker's. Never waits and never does I/O.

    plan.fail("patch", "webapps", "status").times(2, status=500)
    plan.fail("create", "deployments").reply_lost()
    plan.watch("webapps").disconnect()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from opkit.cluster.body import Raw, clone
from opkit.cluster.protocol import WatchEvent
from opkit.errors import ApiError

_SAME_VERB = {"apply": "patch", "replace": "update", "patch_status": "patch"}
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
ANY = "*"


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """What is to go wrong with one request: first the delay, then the error, or the loss of the answer."""

    delay: float = 0.0
    error: ApiError | None = None
    reply_lost: bool = False


NO_FAULT = Fault()


@dataclasses.dataclass(slots=True)
class _Rule:
    verb: str
    resource: str
    subresource: str | None
    fault: Fault
    left: int

    def matches(self, verb: str, resource: str, subresource: str | None) -> bool:
        return (
            self.left > 0
            and self.verb in (ANY, verb, _SAME_VERB.get(verb))
            and self.resource in (ANY, resource)
            and (self.subresource == ANY or (self.subresource or None) == (subresource or None))
        )


class Failure:
    """What is to happen to requests of one kind; each method adds to the plan."""

    def __init__(self, rules: list[_Rule], verb: str, resource: str, subresource: str | None) -> None:
        self._rules = rules
        self._what = (_SAME_VERB.get(verb, verb), resource, subresource)

    def once(self, status: int = 500, reason: str = "", message: str = "", retry_after: float | None = None) -> Failure:
        """Refuse the next such request."""
        return self.times(1, status, reason, message, retry_after)

    def times(
        self, n: int, status: int = 500, reason: str = "", message: str = "", retry_after: float | None = None
    ) -> Failure:
        """Refuse the next `n` such requests; nothing is carried out."""
        return self._add(Fault(error=error(status, reason, message, retry_after)), n)

    def unreachable(self, n: int = 1) -> Failure:
        """Lose the next `n` requests on their way: nothing is carried out, and no answer comes."""
        return self._add(Fault(error=error(0)), n)

    def reply_lost(self, n: int = 1) -> Failure:
        """Carry out the next `n` requests, and lose the answers."""
        return self._add(Fault(reply_lost=True), n)

    def delay(self, seconds: float, n: int = 1) -> Failure:
        """Carry out the next `n` requests only after so many seconds."""
        return self._add(Fault(delay=seconds), n)

    def _add(self, fault: Fault, n: int) -> Failure:
        self._rules.append(_Rule(*self._what, fault, n))
        return self


class Stream:
    """One open watch, as its server shows it to the plan. The callbacks are called synchronously."""

    def __init__(self, resource: str, end: Callable[[ApiError], None], wake: Callable[[], None] = lambda: None) -> None:
        self.resource = resource
        self.is_silent = False
        self.is_held = False
        """What happens is kept back, and sent later."""
        self.injected: list[WatchEvent] = []
        """Events to send that never happened."""
        self.end = end
        """End it with this error: status 0 cuts the connection, others are told inside the stream."""
        self.wake = wake
        """Make it look at these flags again."""


class StreamFailure:
    """What happens to the watches of one resource that are open now; tells how many there were."""

    def __init__(self, streams: list[Stream], expire: Callable[[], None]) -> None:
        self._streams = streams
        self._expire = expire

    def disconnect(self) -> int:
        """Cut the connections."""
        return self._end(error(0, message="the connection was cut"))

    def expire(self) -> int:
        """Let the server forget its history, and end the streams with 410."""
        self._expire()
        return self._end(error(410, message="too old resource version"))

    def error(self, status: int, message: str = "") -> int:
        """End the streams with an error inside of them."""
        return self._end(error(status, message=message))

    def silence(self) -> int:
        """Keep the connections open, and send nothing any more, not even bookmarks."""
        for stream in self._streams:
            stream.is_silent = True
            stream.wake()
        return len(self._streams)

    def send(self, type: str, body: Raw) -> int:
        """Send an event that never happened; `ERROR` ends the stream with the Status that is its body."""
        for stream in self._streams:
            if type == "ERROR":
                stream.end(ApiError.of_body(body, http_status=500))
            else:
                stream.injected.append((type, clone(body)))
                stream.wake()
        return len(self._streams)

    def hold(self) -> int:
        """Keep back what happens from now on."""
        for stream in self._streams:
            stream.is_held = True
        return len(self._streams)

    def release(self) -> int:
        """Send what was kept back."""
        for stream in self._streams:
            stream.is_held = False
            stream.wake()
        return len(self._streams)

    def _end(self, error: ApiError) -> int:
        for stream in self._streams:
            stream.end(error)
        return len(self._streams)


class FaultPlan:
    """All faults that wait to happen, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._streams: dict[Stream, None] = {}
        self.expire: Callable[[], None] = lambda: None
        """Makes the server forget its history; set by the server."""

    def fail(self, verb: str, resource: str = ANY, subresource: str | None = None) -> Failure:
        """
        Say which requests are meant: `get`, `list`, `watch`, `create`, `update` (also `replace`), `patch`
        (also `apply`), `delete`, `deletecollection` or `*`; the plural of the resource or `*`; the
        subresource, `*` for any.
        """
        return Failure(self._rules, verb, resource, subresource)

    def watch(self, resource: str = ANY) -> StreamFailure:
        """Say which open streams are meant."""
        return StreamFailure(list(self.streams(resource)), self.expire)

    def take(self, verb: str, resource: str, subresource: str | None = None) -> Fault:
        """The fault of this request, used up by that; a delay may come together with another fault."""
        if not self._rules:
            return NO_FAULT
        taken = NO_FAULT
        for rule in self._rules:
            if rule.matches(verb, resource, subresource):
                rule.left -= 1
                taken = dataclasses.replace(rule.fault, delay=rule.fault.delay + taken.delay)
                if taken.error is not None or taken.reply_lost:
                    break
        self._rules[:] = [rule for rule in self._rules if rule.left > 0]
        return taken

    def clear(self) -> None:
        """Forget all faults that have not happened yet, and let silent streams speak again."""
        self._rules.clear()
        for stream in self._streams:
            stream.is_silent = False

    def streams(self, resource: str = ANY) -> Iterator[Stream]:
        return (stream for stream in self._streams if resource in (ANY, stream.resource))

    def opened(self, stream: Stream) -> None:
        self._streams[stream] = None

    def closed(self, stream: Stream) -> None:
        self._streams.pop(stream, None)


def error(status: int, reason: str = "", message: str = "", retry_after: float | None = None) -> ApiError:
    """An error as a server would give it for this status; status 0 is no answer at all."""
    if status == 0:
        return ApiError.of(0, message=message or "there was no answer")
    reason = reason or _REASONS.get(status, "")
    return ApiError.of(status, reason, message or f"told to fail with {status} {reason}", retry_after=retry_after)
