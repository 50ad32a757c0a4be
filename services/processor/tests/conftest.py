"""A processor as a process of its own, and hands to feed it and to read what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headgate.common import avro, fingerprints
from headgate.common.embedded import ports
from headgate.common.model import Trigger
from headgate.common.registry import Codec, Registry
from headgate.common.testing.cluster import Stack

DEADLINE_SECONDS = 100.0


def wait_until(what: str, condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """Until the condition gives something true; fails by its name."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds:.0f} s in vain until {what}")


@dataclass
class Running:
    """One processor process."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def ready(self) -> bool:
        return self.answer("readyz")[0] == 200

    def answer(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, problem.read().decode()
        except OSError as problem:
            return 0, str(problem)

    def wait_ready(self) -> Running:
        wait_until(
            f"the processor is ready ({self.log})", lambda: self.ready or self.process.poll() is not None
        )
        assert self.process.poll() is None, self.log.read_text()
        return self

    def wait_exit(self, seconds: float = DEADLINE_SECONDS) -> int:
        return self.process.wait(seconds)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


@dataclass
class World:
    """The stack of one test with triggers, producers and readers around it."""

    stack: Stack
    directory: Path
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics = self.stack.topics
        self.registry = Registry(self.stack.registry, self.directory / "test-schemas.json")
        self.codec = Codec(self.registry, self.topics)
        self.producer = Producer(
            {**self.stack.kafka.librdkafka(), "linger.ms": 5, "log_level": 2, "message.max.bytes": 4_000_000}
        )

    wait_until = staticmethod(wait_until)

    # -- feeding ----------------------------------------------------------------------------------------

    def trigger(self, name: str, revision: int = 1, **fields: Any) -> str:
        """Write a trigger; returns its uid."""
        spec = {
            "metadata": {"name": name},
            "sources": [{"provider": "github-webhook", "name": "gh"}],
            "action": {"local": {}},
            **fields,
        }
        uid = fingerprints.uid(self.topics.prefix, "trigger", name)
        record = {
            "name": name,
            "uid": uid,
            "revision": revision,
            "updated_at": 0,
            "spec": Trigger.model_validate(spec).model_dump_json(by_alias=True, exclude_unset=True),
        }
        self.produce(self.topics.triggers, self.codec.encode("TriggerRecord", record), name)
        return uid

    def wait_revision(self, revision: int) -> None:
        """Until a running processor decides by this revision of a trigger on source gh."""

        def seen() -> bool:
            self.publish(self.event(f"probe-{uuid.uuid4()}"))
            return any(
                verdict["trigger_revision"] == revision
                for one in self.decisions()
                for verdict in one["verdicts"]
            )

        wait_until(f"revision {revision} is known", seen)

    def event(self, key: str, data: Any = None, source: str = "gh", **fields: Any) -> dict[str, Any]:
        return {
            "id": str(uuid.uuid4()),
            "fingerprint": f"github/{source}:{key}",
            "source": source,
            "provider": "github-webhook",
            "type": "issues.opened",
            "subject": None,
            "occurred_at": 1_700_000_000_000_000,
            "received_at": 1_700_000_000_000_000,
            "data": json.dumps({"n": 1} if data is None else data),
            "attributes": {},
            **fields,
        }

    def publish(self, *events: dict[str, Any]) -> None:
        """As an ingest service does it."""
        for event in events:
            value = avro.encode(avro.schema("RawEvent"), self.stack.schema_ids[self.topics.raw], event)
            self.produce(
                self.topics.raw, value, event["fingerprint"], [("content-type", b"application/avro")]
            )
        self.producer.flush(30)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: str | bytes | None = None,
        headers: Any = None,
        **more: Any,
    ) -> None:
        self.producer.produce(topic, value, key, headers=headers or [], **more)
        if len(self.producer) > 5_000:
            self.producer.poll(0.1)
        else:
            self.producer.poll(0)
        if topic == self.topics.triggers:
            assert self.producer.flush(30) == 0

    # -- running ----------------------------------------------------------------------------------------

    def start(
        self, *, state: str = "state", failpoint: str = "", before: str = "pass", **more: str
    ) -> Running:
        """A processor process; `more` are environment variables without the prefix, `before` is what it runs first."""
        port = ports.free()[0]
        log = self.directory / f"processor-{len(self.running)}.log"
        env = {
            **os.environ,
            **self.stack.env(health_port=str(port)),
            "HEADGATE_STATE_DIR": str(self.directory / state),
            "HEADGATE_PROCESSOR__SESSION_TIMEOUT_SECONDS": "6",
            **{f"HEADGATE_{name}": value for name, value in more.items()},
            "FAILPOINT": failpoint,
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"{before}\nfrom headgate.processor.__main__ import main\nexit(main())",
                ],
                env=env,
                stdout=out,
                stderr=out,
            )
        self.running.append(Running(process, port, log))
        return self.running[-1]

    def close(self) -> None:
        for one in self.running:
            if one.process.poll() is None:
                one.kill()
        self.registry.close()

    # -- reading ----------------------------------------------------------------------------------------

    def read(self, topic: str) -> list[Any]:
        """Everything that is on a topic now."""
        consumer = Consumer(
            {**self.stack.kafka.librdkafka(), "group.id": "test", "enable.auto.commit": False, "log_level": 2,
             "auto.offset.reset": "earliest", "enable.partition.eof": False, "fetch.wait.max.ms": 20}
        )  # fmt: skip
        try:
            found: list[Any] = []
            where = [TopicPartition(topic, number, 0) for number in range(self.topics.get(topic).partitions)]
            ends = {one.partition: consumer.get_watermark_offsets(one, timeout=10)[1] for one in where}
            consumer.assign([one for one in where if ends[one.partition]])
            at = dict.fromkeys(ends, 0)
            until = time.monotonic() + 30
            while any(at[number] < end for number, end in ends.items()):
                assert time.monotonic() < until, f"{topic} did not give what it holds"
                for message in consumer.consume(1_000, 0.2):
                    assert message.error() is None
                    at[message.partition() or 0] = (message.offset() or 0) + 1
                    found.append(message)
            return found
        finally:
            consumer.close()

    def matched(self) -> list[dict[str, Any]]:
        return [
            self.codec.decode("MatchedEvent", message.value() or b"")
            for message in self.read(self.topics.matched)
        ]

    def decisions(self) -> list[dict[str, Any]]:
        return [
            self.codec.decode("Decision", message.value() or b"")
            for message in self.read(self.topics.decisions)
        ]

    def letters(self) -> list[Any]:
        return self.read(self.topics.dlq)

    def wait_decisions(self, count: int) -> list[dict[str, Any]]:
        """At least so many decisions."""
        wait_until(f"there are {count} decisions", lambda: self._written(self.topics.decisions) >= count)
        return self.decisions()

    def wait_letters(self, count: int) -> list[Any]:
        wait_until(f"there are {count} dead letters", lambda: self._written(self.topics.dlq) >= count)
        return self.letters()

    def _written(self, topic: str) -> int:
        consumer = Consumer({**self.stack.kafka.librdkafka(), "group.id": "test-ends", "log_level": 2})
        try:
            return sum(
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
                for number in range(self.topics.get(topic).partitions)
            )
        finally:
            consumer.close()


@pytest.fixture
def world(stack: Stack, tmp_path: Path) -> Iterator[World]:
    made = World(stack, tmp_path)
    yield made
    made.close()
