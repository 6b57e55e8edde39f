"""A TCP proxy on loopback whose connections can be cut: what a network does to an operator."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """Passes bytes on between a port of its own and a server's. To be used in one event loop."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target = target_port
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._pipes:
            await asyncio.wait(self._pipes)

    def cut(self) -> int:
        """Cut all connections that there are now; how many there were."""
        for task in self._pipes:
            task.cancel()
        return len(self._pipes)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            self._pipes.discard(task)
            return
        try:
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # cut by us, or by one of the ends
        finally:
            self._pipes.discard(task)
            for one in (writer, far_writer):
                with contextlib.suppress(OSError):
                    one.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
