"""aiohttp's low-level server with two guards it does not have: slow heads and too many connections."""

import asyncio
from collections import Counter
from typing import Any, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from headgate.ingest_webhook.settings import Limits
from headgate.ingest_webhook.telemetry import DELIVERIES

TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


class Connection(RequestHandler):
    """One connection. Its first head must be complete in time, and so must each that has begun."""

    __slots__ = ("_address", "_guard", "_watch")

    def __init__(self, manager: "GuardedServer", **kwargs: Any) -> None:
        super().__init__(manager, **kwargs)
        self._guard = manager
        self._address: str | None = None
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        address = str((stream.get_extra_info("peername") or ("",))[0])
        if not self._guard.admit(address):
            self.transport = stream  # so that closing is still clean
            stream.write(TOO_MANY)
            stream.close()
            return
        self._address = address
        super().connection_made(transport)
        self._start_watch()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_watch()
        if self._address is not None:
            self._guard.release(self._address)
            self._address = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._address is None:
            return
        super().data_received(data)
        waiter = self._waiter  # set and open while no complete head has come
        if waiter is not None and not waiter.done():
            if self._watch is None:
                self._start_watch()
        elif self._watch is not None:
            self._stop_watch()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP gets a plain 400. aiohttp would log the bytes and send them back, credentials and all."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        DELIVERIES.labels("", "400").inc()
        answer = web.Response(status=400, text="this is no HTTP request that is taken here\n")
        answer.force_close()
        return answer

    def _start_watch(self) -> None:
        self._watch = self._loop.call_later(self._guard.limits.header_seconds, self.force_close)

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


class GuardedServer(web.Server):
    """Makes connections and counts them."""

    def __init__(self, handler: Any, limits: Limits) -> None:
        super().__init__(
            handler,
            access_log=None,
            auto_decompress=False,  # signatures are over what was sent
            keepalive_timeout=limits.idle_seconds,
            lingering_time=2.0,
        )
        self.limits = limits
        self._by_address: Counter[str] = Counter()
        self._open = 0

    def admit(self, address: str) -> bool:
        most = self.limits.connections_per_address
        if self._open >= self.limits.connections or (most and self._by_address[address] >= most):
            return False
        self._by_address[address] += 1
        self._open += 1
        return True

    def release(self, address: str) -> None:
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)
