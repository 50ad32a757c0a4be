"""A client of signed webhooks, the same for every contender; a process of its own, speaking HTTP by hand.

`python -m tests.bench.load PORT PATH --connections 64 --seconds 5` sends as fast as answers come;
with `--rate 200` at that pace whatever the answers do. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections import Counter, deque
from typing import cast

import uvloop

SECRET = b"bench-secret"
BODY_BYTES = 1000


class Deliveries:
    """Signed requests, no two alike."""

    def __init__(self, path: str, body_bytes: int = BODY_BYTES) -> None:
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"X-GitHub-Event: issues\r\nX-GitHub-Delivery: {uuid.uuid4().hex[:20]}-%010d\r\n"
            "X-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\n\r\n"
        )
        self._mac = hmac.new(SECRET, b"", hashlib.sha256)
        rest = '"severity":"%s","labels":["a","b"],"action":"opened","issue":{"title":"%s"}}'
        self._rest = rest % ("%s", "x" * (body_bytes - 110))
        self._number = 0

    def next(self) -> bytes:
        """Two in five pass the benchmark's condition; the time of sending travels in the body."""
        self._number += 1
        severity = "high" if self._number % 5 < 2 else "low"
        text = f'{{"sent":{time.time_ns()},"number":{self._number},' + self._rest % severity
        body = text.encode()
        mac = self._mac.copy()
        mac.update(body)
        return (self._head % (self._number, mac.hexdigest(), len(body))).encode() + body


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._buffer = b""
        self._began = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._load.idle(self)

    def send(self, request: bytes, began: float) -> None:
        self._began = began
        assert self.transport is not None
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = 0
        for line in head.split(b"\r\n")[1:]:
            if line[:15].lower() == b"content-length:":
                length = int(line[15:])
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._load.answered(int(head[9:12]), time.perf_counter() - self._began)
        self._load.idle(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost += 1


class Load:
    """All connections together: what to send when, and what came back."""

    def __init__(self, deliveries: Deliveries, rate: float | None) -> None:
        self._deliveries = deliveries
        self._rate = rate
        self._waiting: deque[Connection] = deque()
        self._due: deque[float] = deque()
        self.running = True
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []
        self.lost = 0

    def idle(self, connection: Connection) -> None:
        if not self.running:
            return
        if self._rate is None:
            connection.send(self._deliveries.next(), time.perf_counter())
        elif self._due:
            connection.send(self._deliveries.next(), self._due.popleft())
        else:
            self._waiting.append(connection)

    def answered(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.seconds.append(seconds)

    async def reached(self, count: int) -> None:
        """Return when so many are answered, or a connection is lost."""
        # An event instead would have to be looked after on the measured path.
        while sum(self.statuses.values()) < count and self.lost == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    def fresh(self) -> None:
        """Forget what the warm-up measured."""
        self.statuses.clear()
        self.seconds.clear()

    async def pace(self) -> None:
        """At a fixed rate; a request that no connection is free for is late from its own due time."""
        assert self._rate is not None
        began, number = time.perf_counter(), 0
        while self.running:
            number += 1
            due = began + number / self._rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if self._waiting:
                self._waiting.popleft().send(self._deliveries.next(), due)
            else:
                self._due.append(due)


async def run(options: argparse.Namespace) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    load = Load(Deliveries(options.path), options.rate)
    for _ in range(options.connections):
        await loop.create_connection(lambda: Connection(load), "127.0.0.1", options.port)
    pacing = loop.create_task(load.pace()) if options.rate else None
    await asyncio.sleep(options.warmup)
    load.fresh()
    began = time.perf_counter()
    if options.count:
        await load.reached(options.count)
    else:
        await asyncio.sleep(options.seconds)
    took = time.perf_counter() - began
    seconds, statuses = sorted(load.seconds), dict(load.statuses)
    load.running = False
    if pacing:
        pacing.cancel()
    await asyncio.sleep(0.3)  # the answers still on their way
    return {
        "requests/s": len(seconds) / took,
        "p50": seconds[len(seconds) // 2] * 1000 if seconds else 0.0,
        "p99": seconds[int(len(seconds) * 0.99)] * 1000 if seconds else 0.0,
        "statuses": statuses,
        "sent": sum(load.statuses.values()),
        "lost": load.lost,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--count", type=int)
    print(json.dumps(uvloop.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
