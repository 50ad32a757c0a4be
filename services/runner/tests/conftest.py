"""A runner as a child process against real Kafka, and an engine that remembers every run in SQLite."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from headgate.common.embedded.ports import free
from headgate.common.fingerprints import run_id, uid
from headgate.common.headers import cloud_event
from headgate.common.model import Stored, Trigger
from headgate.common.producer import Producer
from headgate.common.registry import Codec, Registry
from headgate.common.testing.cluster import Stack

DEADLINE_SECONDS = 60.0


class FakeEngine:
    """Starts runs over HTTP and keeps each id once, as an engine with an idempotency key should.

    `plan(run_id, attempt)` names what happens: ok, 400, 409, 429, 500-before, 500-after (the run starts,
    the answer lies), drop-before, drop-after (the run starts, the reply is lost), hang.
    """

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path)
        self.db.execute("CREATE TABLE runs (run_id TEXT PRIMARY KEY, body TEXT, headers TEXT)")
        self.order: list[str] = []
        self.attempts: dict[str, int] = {}
        self.plan: Callable[[str, int], str] = lambda _run, _attempt: "ok"
        self.running = self.most_running = 0
        self.let_go = asyncio.Event()
        self.url = ""

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        rows = self.db.execute("SELECT run_id, body, headers FROM runs")
        return {
            run: {"body": json.loads(body), "headers": json.loads(headers)} for run, body, headers in rows
        }

    @property
    def count(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM runs").fetchone()[0])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        run = request.headers["Idempotency-Key"]
        attempt = self.attempts[run] = self.attempts.get(run, 0) + 1
        self.order.append(run)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._answer(request, run, self.plan(run, attempt))
        finally:
            self.running -= 1

    async def _answer(self, request: web.Request, run: str, what: str) -> web.StreamResponse:
        body = await request.text()
        if what == "hang":
            await self.let_go.wait()
            what = "ok"
        if what in ("ok", "500-after", "drop-after"):
            fresh = self.db.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", (run, body, json.dumps(dict(request.headers)))
            ).rowcount
            self.db.commit()
            if what == "ok":
                return web.json_response({"id": f"wf-{run[:8]}"}, status=201 if fresh else 409)
        if what.startswith("drop"):
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError
        status = int(what[:3])
        headers = {"Retry-After": "0"} if status == 429 else {}
        return web.Response(status=status, text=f"planned {what}", headers=headers)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    fake = FakeEngine(tmp_path / "engine.sqlite")
    app = web.Application()
    app.router.add_route("*", "/runs", fake.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/runs"
    yield fake
    fake.let_go.set()
    await runner.cleanup()
    fake.db.close()


@dataclass
class Replica:
    """One runner process."""

    process: asyncio.subprocess.Process
    port: int
    log: Path

    async def get(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            assert self.process.returncode is None, f"the runner ended: {self.log.read_text()}"
            assert time.monotonic() < end, f"not ready: {self.log.read_text()}"
            try:
                if (await self.get("/readyz"))[0] == 200:
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)

    async def metric(self, name: str) -> float:
        """The sum over all labels."""
        _, text = await self.get("/metrics")
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    async def ended(self, seconds: float = DEADLINE_SECONDS) -> int:
        return await asyncio.wait_for(self.process.wait(), seconds)

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@dataclass
class World:
    """Everything around a runner: triggers, matched events, what it writes."""

    stack: Stack
    codec: Codec
    producer: Producer
    directory: Path
    replicas: list[Replica] = field(default_factory=list)

    async def apply(self, name: str, action: dict[str, Any], revision: int = 1, **policy: Any) -> None:
        spec = Trigger.model_validate(
            {
                "apiVersion": "headgate/v1",
                "kind": "Trigger",
                "metadata": {"name": name},
                "sources": [{"provider": "events", "match": {"source": "test/*"}}],
                "action": action,
                "policy": policy,
            }
        )
        stored = Stored(name, self.uid(name), revision, 0, "test", spec)
        await self.producer.send(
            self.stack.topics.triggers, key=name, value=self.codec.encode("TriggerRecord", stored.record())
        )

    def uid(self, name: str) -> str:
        return uid(self.stack.prefix, "trigger", name)

    def run(self, trigger: str, number: int) -> str:
        return run_id(self.uid(trigger), f"test/s:{number}")

    def matched(self, trigger: str, number: int, data: Any = None, revision: int = 1) -> bytes:
        now = time.time_ns() // 1000
        event: dict[str, Any] = {
            "id": f"event-{number}",
            "fingerprint": f"test/s:{number}",
            "source": "s",
            "provider": "test",
            "type": "test.happened",
            "subject": None,
            "occurred_at": now,
            "received_at": now,
            "data": json.dumps({"number": number} if data is None else data),
            "attributes": {},
        }
        return self.codec.encode(
            "MatchedEvent",
            {
                "run_id": self.run(trigger, number),
                "trigger": trigger,
                "trigger_uid": self.uid(trigger),
                "trigger_revision": revision,
                "matched_at": now,
                "event": event,
            },
        )

    async def produce(
        self, value: bytes | None, key: str | None = None, partition: int | None = None
    ) -> Message:
        headers = cloud_event(event_id="e", source="s", type="t", micros=0)
        return await self.producer.send(
            self.stack.topics.matched, key=key, value=value, headers=headers, partition=partition
        )

    async def match(self, trigger: str, numbers: range, keys: int | None = None) -> None:
        """Matched events; `keys`: spread over so many ordering keys, else each under its own."""
        await asyncio.gather(
            *(
                self.produce(
                    self.matched(trigger, number),
                    self.run(trigger, number) if keys is None else f"key-{number % keys}",
                )
                for number in numbers
            )
        )

    async def runner(self, **env: str) -> Replica:
        """Start a replica; `env` as HEADGATE_RUNNER__<NAME>, or whole names in capitals."""
        (port,) = free()
        log = self.directory / f"runner-{len(self.replicas)}.log"
        settings = {
            name if name.isupper() else f"HEADGATE_RUNNER__{name.upper()}": value
            for name, value in env.items()
        }
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headgate.runner",
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")},
                    **self.stack.env(health_port=str(port)),
                    "HEADGATE_RUNNER__RETRY_BASE_SECONDS": "0.02",
                    **settings,
                },
                stdout=out,
                stderr=out,
            )
        replica = Replica(process, port, log)
        self.replicas.append(replica)
        return replica

    def read(self, topic: str) -> list[Message]:
        """Everything on a topic, right now."""
        consumer = Consumer(
            {
                **self.stack.kafka.librdkafka(),
                "group.id": "test.reader",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        try:
            found: list[Message] = []
            left: dict[int | None, int] = {}
            for number in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
                if low < high:
                    left[number] = high
            consumer.assign([TopicPartition(topic, number or 0, OFFSET_BEGINNING) for number in left])
            while left:
                message = consumer.poll(10)
                assert message is not None
                assert message.error() is None, message.error()
                found.append(message)
                if (message.offset() or 0) + 1 >= left.get(message.partition(), 0):
                    left.pop(message.partition(), None)
            return found
        finally:
            consumer.close()

    async def run_records(self) -> list[dict[str, Any]]:
        messages = await asyncio.to_thread(self.read, self.stack.topics.runs)
        return [self.codec.decode("Run", bytes(message.value() or b"")) for message in messages]

    async def dead_letters(self) -> list[Message]:
        return await asyncio.to_thread(self.read, self.stack.topics.dlq)

    async def eventually(self, read: Callable[[], Any], enough: Callable[[Any], bool], what: str) -> Any:
        """Read again until it is enough."""
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            found = await read()
            if enough(found):
                return found
            logs = "\n".join(replica.log.read_text()[-3000:] for replica in self.replicas)
            assert time.monotonic() < end, f"{what}: {found}\n{logs}"
            await asyncio.sleep(0.1)

    def committed(self) -> dict[int, int]:
        """The group's committed offset of each partition."""
        consumer = Consumer(
            {**self.stack.kafka.librdkafka(), "group.id": self.stack.kafka.topics().runner_group}
        )
        try:
            wanted = [
                TopicPartition(self.stack.topics.matched, n) for n in range(self.stack.topics.partitions)
            ]
            return {one.partition: one.offset for one in consumer.committed(wanted, timeout=10)}
        finally:
            consumer.close()

    def ends(self) -> dict[int, int]:
        consumer = Consumer({**self.stack.kafka.librdkafka(), "group.id": "test.reader"})
        try:
            return {
                n: consumer.get_watermark_offsets(TopicPartition(self.stack.topics.matched, n), timeout=10)[1]
                for n in range(self.stack.topics.partitions)
            }
        finally:
            consumer.close()


@pytest.fixture
async def world(stack: Stack, tmp_path: Path) -> AsyncIterator[World]:
    registry = Registry(stack.registry)
    codec = Codec(registry, stack.topics)
    codec.prepare("MatchedEvent", "Run", "TriggerRecord")
    producer = Producer(stack.kafka)
    made = World(stack, codec, producer, tmp_path)
    yield made
    for replica in made.replicas:
        await replica.kill()
    await producer.close()
    registry.close()
