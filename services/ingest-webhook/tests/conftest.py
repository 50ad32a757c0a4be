"""A receiver on a real socket, with a fake outbox: what tests of HTTP behaviour need."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from tests.harness.deliveries import SECRET

from headgate.common.headers import Headers
from headgate.common.model import Source, Stored
from headgate.common.topics import Topics
from headgate.ingest_webhook.providers import hooks
from headgate.ingest_webhook.receiver import Receiver
from headgate.ingest_webhook.routes import Routes
from headgate.ingest_webhook.server import GuardedServer
from headgate.ingest_webhook.settings import Limits


@dataclass(frozen=True)
class Sent:
    topic: str
    key: str
    value: bytes
    headers: dict[str, bytes]


@dataclass
class MemoryOutbox:
    """Keeps what is sent. `behave` may raise, or give a future that resolves when the test says so."""

    sent: list[Sent] = field(default_factory=list)
    behave: Callable[[], asyncio.Future[object] | None] = lambda: None

    def hand_over(self, topic: str, key: Any, value: Any, headers: Headers | None, told: Any) -> None:
        future = self.behave()
        if future is None:
            future = asyncio.get_running_loop().create_future()
            future.set_result(None)
        future.add_done_callback(lambda done: told(done.exception(), None))
        self.sent.append(Sent(topic, key, value, dict(headers or ())))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def words(self) -> Any:
        return json.loads(self.body)


@dataclass
class Door:
    """A running receiver and a client that sends exactly the bytes it is given."""

    port: int
    outbox: MemoryOutbox
    receiver: Receiver
    routes: Routes
    sources: dict[str, Stored[Source]]
    stop: Callable[[], Awaitable[None]]
    known: bool = True

    async def answer(self, reader: asyncio.StreamReader) -> Answer:
        """The next answer on a connection that stays open."""
        async with asyncio.timeout(20):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(head[0].split()[1]), headers, body)

    async def raw(self, data: bytes) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            await writer.drain()
            return await self.answer(reader)
        finally:
            writer.close()

    async def post(
        self,
        path: str,
        headers: list[tuple[str, bytes]],
        body: bytes,
        *,
        chunked: bool = False,
        method: str = "POST",
    ) -> Answer:
        head = f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n".encode()
        head += b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers)
        if chunked:
            pieces = [body[start : start + 7] for start in range(0, len(body), 7)]
            framed = b"".join(f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in pieces) + b"0\r\n\r\n"
            return await self.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + framed)
        return await self.raw(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def stored(name: str, provider: str, config: dict[str, Any], **more: Any) -> Stored[Source]:
    spec = Source(metadata={"name": name}, provider=provider, config=config, **more)
    return Stored(name, "uid", 1, 0, "", spec)


@pytest.fixture
def source() -> Callable[..., Stored[Source]]:
    """`source(name, provider, config)`: a source as it lies on its topic."""
    return stored


@pytest.fixture
def github_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SECRET", SECRET)


@pytest.fixture
def repo(github_secret: None) -> Callable[..., Stored[Source]]:
    """`repo(**config)`: a source that takes the deliveries of `tests.harness.deliveries`."""

    def build(**config: Any) -> Stored[Source]:
        return stored("repo", "github-webhook", {"secrets": [{"env": "GITHUB_SECRET"}], **config})

    return build


OpenDoor = Callable[..., Awaitable[Door]]


@pytest.fixture(params=["the quick lane", "the slow lane"])
async def open_door(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenDoor]:
    """Every claim is made of both lanes: the connection's own, and aiohttp's task."""
    if request.param == "the slow lane":
        monkeypatch.setattr("headgate.ingest_webhook.server.MOST_AT_ONCE_BYTES", -1)
    async with AsyncExitStack() as doors:

        async def open_one(*sources: Stored[Source], **settings: Any) -> Door:
            return await doors.enter_async_context(door(sources, **settings))

        yield open_one


@asynccontextmanager
async def door(
    sources: tuple[Stored[Source], ...],
    limits: Limits | None = None,
    now: datetime | None = None,
    plug_ins: dict[str, Any] | None = None,
) -> AsyncIterator[Door]:
    limits = limits or Limits()
    by_name = {one.name: one for one in sources}
    outbox = MemoryOutbox()
    routes = Routes(plug_ins or hooks(), by_name, limits.rate_per_second)
    receiver = Receiver(
        routes=routes,
        outbox=outbox,
        encode=lambda values: json.dumps(values).encode(),
        topics=Topics(),
        limits=limits,
        known=lambda: opened.known,
        now=lambda: now or datetime.now(UTC),
    )
    runner = web.ServerRunner(GuardedServer(receiver, limits), shutdown_timeout=5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        opened = Door(runner.addresses[0][1], outbox, receiver, routes, by_name, runner.cleanup)
        yield opened
    finally:
        await runner.cleanup()
