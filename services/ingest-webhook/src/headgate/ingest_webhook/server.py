"""aiohttp's low-level server with two guards it does not have, slow heads and too many connections, and a quick
lane: a delivery that came whole is handled where it was read, without waking aiohttp's task for the connection and
without the request object, the writer and the task that aiohttp makes for each request.

The lane leans on a few private names of aiohttp's RequestHandler. Its version is pinned, and the tests of this
service go through both lanes.
"""

import asyncio
from collections import Counter
from typing import Any, Protocol, cast

from aiohttp import HttpVersion11, web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from headgate.common import hooks
from headgate.ingest_webhook.answers import MOST_UNREAD_BYTES, Answer
from headgate.ingest_webhook.receiver import Reply
from headgate.ingest_webhook.routes import Route
from headgate.ingest_webhook.settings import Limits
from headgate.ingest_webhook.telemetry import DELIVERIES

TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

MOST_AT_ONCE_BYTES = 65_536  # far below where aiohttp stops reading, so that nothing need be started again


class Handler(Protocol):
    """A receiver."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse: ...

    def route_of(self, method: str, path: str) -> Route | None: ...

    def receive(self, route: Route, headers: hooks.Headers, body: bytes, reply: Reply) -> None: ...


class Connection(RequestHandler):
    """One connection. Its first head must be complete in time, and so must each that has begun."""

    __slots__ = ("_address", "_guard", "_last", "_watch")

    def __init__(self, manager: "GuardedServer", **kwargs: Any) -> None:
        super().__init__(manager, **kwargs)
        self._guard = manager
        self._address: str | None = None
        self._last = False  # whether the sender wants the connection closed after the answer
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
        waiter = self._waiter
        if waiter is None or waiter.done():  # aiohttp's task is at work, and takes what comes when it is done
            super().data_received(data)
            self._stop_watch()
            return
        self._waiter = None  # so that the task is not woken for what the quick lane takes
        super().data_received(data)
        self._waiter = waiter
        if self._messages:
            self._stop_watch()
            if not (self._request_in_progress or self._take()):
                waiter.set_result(None)
        elif self._watch is None and not self._request_in_progress:
            self._start_watch()

    def _take(self) -> bool:
        """Hand on the one request that is here, if it is a whole delivery. The task goes on waiting meanwhile."""
        parser = self._parser
        if len(self._messages) > 1 or self._upgraded or parser is None:
            return False
        message, payload = self._messages[0]
        if (
            type(message) is not RawRequestMessage  # an error of the parser
            or not payload.is_eof()
            or not 0 < payload.total_bytes <= MOST_AT_ONCE_BYTES
            or message.upgrade
            or message.version != HttpVersion11
            or (route := self._guard.handler.route_of(message.method, message.path)) is None
        ):
            return False
        self._messages.clear()
        parser.message_consumed()
        self._request_in_progress = True  # shutdown waits for it, and idle connections are others
        self._last = message.should_close
        self._guard.handler.receive(route, message.headers, b"".join(payload._buffer), self._reply)
        return True

    def _reply(self, answer: Answer) -> None:
        """Answer the delivery that was taken, and let in what came meanwhile."""
        self._request_in_progress = False
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)
        transport = self.transport
        if transport is None or transport.is_closing():  # the sender went away before its answer
            return
        last = self._last or self._close
        transport.write(answer.on_the_wire(keep_alive=not last))
        if transport.get_write_buffer_size() > MOST_UNREAD_BYTES:  # sends and never reads
            transport.abort()
        elif last:
            self.close()
            transport.close()
        else:
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
            if self._messages and self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _process_keepalive(self) -> None:
        if self._request_in_progress:  # aiohttp takes a connection whose task waits for an idle one
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        super()._process_keepalive()

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

    def __init__(self, handler: Handler, limits: Limits) -> None:
        super().__init__(
            handler,
            access_log=None,
            auto_decompress=False,  # signatures are over what was sent
            keepalive_timeout=limits.idle_seconds,
            lingering_time=2.0,
        )
        self.handler = handler
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
