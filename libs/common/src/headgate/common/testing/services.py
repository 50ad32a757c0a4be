"""Services as child processes of a test, killed without ceremony and read from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from headgate.common.fingerprints import uid
from headgate.common.model import Source, Stored
from headgate.common.registry import Codec, Registry
from headgate.common.testing.cluster import Stack


class Child:
    """`python -m headgate.<name>` in a test's world."""

    def __init__(self, stack: Stack, name: str, log: Path, **env: str) -> None:
        self._module = f"headgate.{name}"
        self._log = log
        failpoint = env.pop("failpoint", "")
        self._env = {**os.environ, **stack.env(health_port="0", **env), "FAILPOINT": failpoint}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> Child:
        with self._log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, env=self._env, stdout=out, stderr=out
            )
        return self

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def wait(self, timeout_seconds: float = 30) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), timeout_seconds)

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self.running:
            self._process.kill()
            await self._process.wait()

    def pause(self) -> None:
        """Make it a zombie: it stands still and knows nothing of it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> int:
        """SIGTERM, and its exit code."""
        assert self._process is not None
        if self.running:
            self._process.terminate()
        return await self.wait()

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")


@asynccontextmanager
async def replicas(stack: Stack, name: str, logs: Path, **env: str) -> AsyncIterator[Callable[..., Child]]:
    """Makes replicas of a service; whatever still runs at the end is killed."""
    made: list[Child] = []

    def make(**more: str) -> Child:
        made.append(Child(stack, name, logs / f"{name}-{len(made)}.log", **env, **more))
        return made[-1]

    yield make
    for child in made:
        await child.kill()


class Outside:
    """What a test writes to and reads from a stack, with clients of its own."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._registry = Registry(stack.registry)
        self._codec = Codec(self._registry, stack.topics)
        self._producer = Producer({**stack.kafka.librdkafka(), "acks": "all"})
        self._revision = 0

    def close(self) -> None:
        self._registry.close()

    def apply(self, *documents: dict[str, Any]) -> None:
        """Write sources as `headgate apply` does."""
        for document in documents:
            source = Source.model_validate(document)
            self._revision += 1
            key = uid(self._stack.prefix, "source", source.name)
            stored = Stored(source.name, key, self._revision, time.time_ns() // 1000, "test", source)
            value = self._codec.encode("SourceRecord", stored.record())
            self._producer.produce(self._stack.topics.sources, value=value, key=source.name)
        assert self._producer.flush(10) == 0

    def delete(self, name: str) -> None:
        self._producer.produce(self._stack.topics.sources, value=None, key=name)
        assert self._producer.flush(10) == 0

    def read(self, topic: str) -> list[tuple[int, int, str, bytes | None, int]]:
        """Everything on a topic: partition, offset, key, value, timestamp; in the order of timestamps."""
        consumer = Consumer(
            {
                **self._stack.kafka.librdkafka(),
                "group.id": "outside",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            left = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in left])
            found = []
            while left:
                for message in consumer.consume(500, 0.1):
                    where, error = message.partition() or 0, message.error()
                    if error is None:
                        key, value = message.key() or b"", message.value()
                        found.append(
                            (where, message.offset() or 0, bytes(key).decode(), value, message.timestamp()[1])
                        )
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard(where)
            return sorted(found, key=lambda record: record[4])
        finally:
            consumer.close()

    def events(self) -> list[dict[str, Any]]:
        """The raw topic, decoded."""
        return [
            self._codec.decode("RawEvent", value)
            for *_, value, _ in self.read(self._stack.topics.raw)
            if value
        ]

    def cursors(self) -> list[dict[str, Any]]:
        """Every position ever saved and not yet compacted away, decoded."""
        records = self.read(self._stack.topics.cursors)
        return [self._codec.decode("CursorRecord", value) for *_, value, _ in records if value]


async def eventually(
    check: Callable[[], Any],
    within_seconds: float = 30,
    watched: Sequence[Child] = (),
    every_seconds: float = 0.2,
) -> Any:
    """Wait until `check` returns something true, and return that; fail with the logs when it does not."""
    deadline = time.monotonic() + within_seconds
    while True:
        found = await asyncio.to_thread(check)
        if found:
            return found
        if time.monotonic() > deadline:
            logs = "\n".join(child.log()[-4000:] for child in watched)
            raise AssertionError(f"not within {within_seconds} s: {check}\n{logs}")
        await asyncio.sleep(every_seconds)
