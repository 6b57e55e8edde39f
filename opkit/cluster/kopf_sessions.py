"""
kopf's sessions: connections to the API server, one for each of the credentials in use.

Takes credentials; gives sessions. Those of credentials that were replaced are closed when what they are at has come to
its end, so that no write is lost. Beside `kopf_client`, the only module that imports kopf's private parts.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import ssl
from collections.abc import Iterator

from kopf._cogs.clients import auth
from kopf._cogs.structs import credentials

from opkit.cluster.proxies import checked_proxy
from opkit.cluster.renewal import Keeper
from opkit.errors import CredentialsError

logger = logging.getLogger("opkit.cluster")

# All that the login handlers gave, the preferred ones first.
Infos = tuple[credentials.KubeContext, ...]


class Sessions:
    """The sessions in use, in the order in which they are to be tried, and those on their way out."""

    def __init__(self) -> None:
        self.current: tuple[auth.APIContext, ...] = ()
        self._retired: list[auth.APIContext] = []
        # Requests on their way, by session: kopf knows of answers only.
        self._busy: collections.Counter[auth.APIContext] = collections.Counter()

    def open(self, infos: Infos) -> None:
        """Begin with these credentials. Raises `CredentialsError` if they can't be used."""
        self.current = tuple(_session(info) for info in infos)

    def switch(self, infos: Infos) -> None:
        """Go on with these credentials; with those from before, if they can't be used."""
        before = self.current
        try:
            self.open(infos)
        except CredentialsError as error:
            logger.warning("%s; the session from before is used for now", error)
        else:
            self._retired += before

    @contextlib.contextmanager
    def busy(self, session: auth.APIContext) -> Iterator[None]:
        """While a request is on its way by these connections."""
        self._busy[session] += 1
        try:
            yield
        finally:
            self._busy[session] -= 1

    async def sweep(self) -> None:
        """Close what is not in use any more."""
        retired, self._retired = self._retired, []
        for session in retired:
            session.flush_closed_responses()
            if session.responses or self._busy[session]:
                self._retired.append(session)
                continue
            del self._busy[session]
            # An author's own session may have been given twice.
            if all(session.session is not other.session for other in (*self.current, *self._retired)):
                await session.close()

    async def close(self) -> None:
        """Close all of them, whatever they are at."""
        for session in (*self.current, *self._retired):
            await session.close()
        self._retired = []


class LiveCredentials:
    """
    The credentials for a client of another library. To be used from any thread; the methods block.

    `loop` is the one that the login handlers need, if they do: in its own thread nobody can wait for them.
    """

    def __init__(self, keeper: Keeper[Infos], loop: asyncio.AbstractEventLoop | None) -> None:
        self._keeper, self._loop = keeper, loop

    def current(self) -> credentials.ConnectionInfo:
        """Those to be used now. Raises `CredentialsError` if they are of no use for another client."""
        return _of_use(self._keeper.renewed() if self._may_wait() and self._keeper.is_due() else self._keeper.value)

    def after_refusal(self, refused: credentials.ConnectionInfo) -> credentials.ConnectionInfo | None:
        """What to use instead of what the server refused, if there is something else."""
        value = self._keeper.value
        if _of_use(value) is not refused:
            return _of_use(value)
        found = self._keeper.after_refusal(value) if self._may_wait() else None
        return _of_use(found) if found else None

    def helped(self) -> None:
        """The server takes those that came after a refusal."""
        self._keeper.helped(self._keeper.value)

    def _may_wait(self) -> bool:
        if self._loop is None:
            return True
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return True


def _of_use(infos: Infos) -> credentials.ConnectionInfo:
    for info in infos:
        if isinstance(info, credentials.ConnectionInfo):
            return info
    raise CredentialsError("the login handler gave no credentials that another client could use")


def _session(info: credentials.KubeContext) -> auth.APIContext:
    if isinstance(info, credentials.ConnectionInfo) and info.proxy_url:
        checked_proxy(info.proxy_url, "the proxy_url of the credentials")
    try:
        return auth.APIContext(info)
    except (OSError, ValueError) as error:
        part = _part(info) if isinstance(info, credentials.ConnectionInfo) else "what the login handler gave"
        # Neither what was given nor a parser's words for it: both may be the secret.
        why = (error.reason or "it is not valid") if isinstance(error, ssl.SSLError) else "it is not valid"
        raise CredentialsError(f"{part} can't be used for TLS: {why}") from None


def _part(info: credentials.ConnectionInfo) -> str:
    """What of the credentials is wrong: the authority, or else the certificate with its key."""
    try:
        dataclasses.replace(
            info, certificate_path=None, certificate_data=None, private_key_path=None, private_key_data=None
        ).as_ssl_context()  # fmt: skip
    except (OSError, ValueError):
        return f"the certificate authority ({info.ca_path!r})" if info.ca_path else "the certificate authority's data"
    paths = [str(path) for path in (info.certificate_path, info.private_key_path) if isinstance(path, str)]
    return f"the client certificate with its key ({', '.join(paths) or 'both given as data'})"
