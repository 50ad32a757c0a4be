"""The command line in this process, and a world of records to ask it about."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uuid_utils
from typer.testing import CliRunner

from headgate.cli.__main__ import build
from headgate.common import deadletter, fingerprints
from headgate.common.control.connection import Connection, Outgoing, Written
from headgate.common.control.events import moment
from headgate.common.headers import cloud_event
from headgate.common.settings import KafkaSettings, RegistrySettings, ServiceSettings
from headgate.common.topicadmin import TopicAdmin


@dataclass(frozen=True)
class Answer:
    """What one invocation said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


class Headgate:
    """`headgate("get", "triggers")`: the whole command line, without a process."""

    def __call__(self, *arguments: str, stdin: str | None = None) -> Answer:
        result = CliRunner().invoke(build(arguments), list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def headgate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Headgate:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return Headgate()


@pytest.fixture(scope="module")
def connection(kafka: str, registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A prefix for a module's tests: creating topics is slow, and events of different tests do not meet."""
    settings = ServiceSettings(
        kafka=KafkaSettings(bootstrap=kafka, prefix=f"t{uuid.uuid4().hex[:10]}"),
        registry=RegistrySettings(url=registry, timeout_seconds=15),
        state_dir=tmp_path_factory.mktemp("state"),
    )
    connection = Connection(settings)
    TopicAdmin(settings.kafka).apply(connection.topics)
    connection.registry.install(connection.topics)
    yield connection
    gone = connection.admin.delete_topics(
        [topic.name for topic in connection.topics.all], operation_timeout=5
    )
    for future in gone.values():
        future.exception(timeout=10)
    connection.close()


@pytest.fixture
def world(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> World:
    """Records on that prefix; the environment points there."""
    settings = connection.settings
    monkeypatch.setenv("HEADGATE_KAFKA__BOOTSTRAP", settings.kafka.bootstrap)
    monkeypatch.setenv("HEADGATE_KAFKA__PREFIX", settings.kafka.prefix)
    monkeypatch.setenv("HEADGATE_REGISTRY__URL", settings.registry.url)
    monkeypatch.setenv("HEADGATE_STATE_DIR", str(settings.state_dir))
    return World(connection)


def now() -> int:
    return time.time_ns() // 1000


@dataclass
class World:
    """Writes what the services would write, so that each state of an event can be asked about."""

    connection: Connection

    def event(self, key: str = "", source: str = "hooks", **more: Any) -> dict[str, Any]:
        """One sighting on the raw topic."""
        key = key or uuid.uuid4().hex
        values: dict[str, Any] = {
            "id": str(uuid_utils.uuid7()),
            "fingerprint": fingerprints.fingerprint("github-webhook", source, key),
            "source": source,
            "provider": "github-webhook",
            "type": "issues.opened",
            "subject": "octo/repo#7",
            "occurred_at": now(),
            "received_at": now(),
            "data": '{"action": "opened", "n": 7}',
            "attributes": {},
        } | more
        headers = cloud_event(event_id=values["id"], source=source, type=values["type"], micros=now())
        topics = self.connection.topics
        written = self.write("RawEvent", topics.raw, values["fingerprint"], values, headers)
        return values | {"at": written}

    def decide(self, event: dict[str, Any], *verdicts: dict[str, Any], reason: str = "") -> None:
        """The decision about an event; `verdict` makes its parts."""
        at: Written = event["at"]
        values = {name: event[name] for name in ("fingerprint", "source", "type")}
        values |= {"event_id": event["id"], "topic": at.topic, "partition": at.partition, "offset": at.offset}
        values |= {"decided_at": now(), "reason": reason, "verdicts": list(verdicts)}
        self.write("Decision", self.connection.topics.decisions, event["id"], values)

    def verdict(self, event: dict[str, Any], trigger: str, outcome: str, reason: str = "") -> dict[str, Any]:
        run = self.run_id(event, trigger) if outcome in ("started", "duplicate") else None
        return {
            "trigger": trigger,
            "trigger_uid": self.uid(trigger),
            "trigger_revision": 3,
            "outcome": outcome,
            "reason": reason,
            "run_id": run,
        }

    def match(self, event: dict[str, Any], trigger: str, key: str = "") -> Written:
        """What the processor hands to the runner."""
        run_id = self.run_id(event, trigger)
        inner = {name: value for name, value in event.items() if name != "at"}
        values = {
            "run_id": run_id,
            "trigger": trigger,
            "trigger_uid": self.uid(trigger),
            "trigger_revision": 3,
            "matched_at": now(),
            "event": inner,
        }
        headers = cloud_event(event_id=event["id"], source=event["source"], type=event["type"], micros=now())
        return self.write("MatchedEvent", self.connection.topics.matched, key or run_id, values, headers)

    def run(self, event: dict[str, Any], trigger: str, state: str = "started", **more: Any) -> str:
        """The runner's record of a run."""
        run_id = self.run_id(event, trigger)
        values = {
            "run_id": run_id,
            "trigger": trigger,
            "trigger_uid": self.uid(trigger),
            "trigger_revision": 3,
            "event_id": event["id"],
            "fingerprint": event["fingerprint"],
            "source": event["source"],
            "engine": "http",
            "state": state,
            "handle": "",
            "answer": "202 accepted",
            "error": "",
            "attempts": 1,
            "received_at": event["received_at"],
            "recorded_at": now(),
        } | more
        self.write("Run", self.connection.topics.runs, run_id, values)
        return run_id

    def letter(self, event: dict[str, Any], stage: str = "processor", **reason: Any) -> Written:
        """A dead letter of the raw record of an event."""
        at: Written = event["at"]
        given: dict[str, Any] = {
            "code": "condition-error",
            "message": "no such key: urgency",
            "topic": at.topic,
            "partition": at.partition,
            "offset": at.offset,
            "fingerprint": event["fingerprint"],
            "event_id": event["id"],
        }
        why = deadletter.Reason(stage=stage, **(given | reason))
        plain = {name: value for name, value in event.items() if name != "at"}
        value = self.connection.codec.encode("RawEvent", plain)
        original = cloud_event(event_id=event["id"], source=event["source"], type=event["type"], micros=now())
        headers = deadletter.headers(why, original, moment(now()))
        return self.raw(self.connection.topics.dlq, event["fingerprint"].encode(), value, headers)

    def uid(self, trigger: str) -> str:
        return fingerprints.uid(self.connection.topics.prefix, "trigger", trigger)

    def run_id(self, event: dict[str, Any], trigger: str) -> str:
        return fingerprints.run_id(self.uid(trigger), event["fingerprint"])

    def write(
        self, record: str, topic: str, key: str, values: dict[str, Any], headers: Any = None
    ) -> Written:
        return self.raw(topic, key.encode(), self.connection.codec.encode(record, values), headers)

    def raw(self, topic: str, key: bytes | None, value: bytes | None, headers: Any = None) -> Written:
        return self.connection.write([Outgoing(topic, key, value, headers)])[0]

    def commit(self, group: str, at: Written, behind: int = 0) -> None:
        """As if a service had read up to a record."""
        from confluent_kafka import Consumer, TopicPartition

        settings = self.connection.settings.kafka
        config = {**settings.librdkafka(), "group.id": f"{settings.prefix}.{group}"}
        consumer = Consumer(config)
        consumer.commit(
            offsets=[TopicPartition(at.topic, at.partition, at.offset - behind)], asynchronous=False
        )
        consumer.close()
