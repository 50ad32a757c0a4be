"""What the processor needs goes away: the registry, the dead-letter topic, the disk, its own changelog's past."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headgate.common import avro

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


class Front(http.server.ThreadingHTTPServer):
    """A registry that can be switched off: it hands requests on, or answers 503."""

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind = behind
        self.up = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    def _answer(self) -> None:
        front: Any = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = 503, b"{}"
        if front.up:
            request = urllib.request.Request(
                front.behind + self.path,
                body or None,
                {"Content-Type": "application/json"},
                method=self.command,
            )
            try:
                with urllib.request.urlopen(request, timeout=10) as reply:
                    status, answer = reply.status, reply.read()
            except urllib.error.HTTPError as problem:
                with problem:
                    status, answer = problem.code, problem.read()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def front(world: Any) -> Iterator[Front]:
    with Front(world.stack.registry.url) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def foreign_writer(world: Any) -> tuple[int, Any]:
    """Another version of our schema, as another producer may have registered it."""
    text = json.loads(avro.schema_text("RawEvent"))
    text["doc"] = "another program's copy"
    request = urllib.request.Request(
        f"{world.stack.registry.url}/subjects/{world.topics.prefix}.copy-value/versions",
        json.dumps({"schema": json.dumps(text)}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=15) as answer:
        return int(json.load(answer)["id"]), avro.parse(json.dumps(text))


def committed(world: Any) -> dict[tuple[str, int], int]:
    admin = AdminClient(world.stack.kafka.librdkafka())
    group = world.topics.processor_app
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions if one.offset >= 0}


def test_an_unknown_schema_waits_for_the_registry_and_is_not_lost_nor_dead_lettered(
    world: Any, front: Front
) -> None:
    world.trigger("t")
    number, schema = foreign_writer(world)
    running = world.start(REGISTRY__URL=front.url).wait_ready()
    front.up = False
    known, unknown = world.event("known"), world.event("unknown")
    world.publish(known)
    world.wait_decisions(1)
    world.produce(world.topics.raw, avro.encode(schema, number, unknown), unknown["fingerprint"])
    world.producer.flush(30)
    world.wait_until(
        "readiness says what it waits for", lambda: f"for schema {number}" in running.answer("readyz")[1]
    )
    assert world.letters() == []
    front.up = True
    decisions = world.wait_decisions(2)
    assert [one["verdicts"][0]["outcome"] for one in decisions] == ["started", "started"]
    world.wait_until("it is ready again", lambda: running.ready)
    assert world.letters() == []


def test_it_starts_without_a_registry_once_it_has_seen_one(world: Any, front: Front) -> None:
    world.trigger("t")
    assert world.start(REGISTRY__URL=front.url).wait_ready().stop() == 0
    front.up = False
    world.publish(world.event("a"))
    world.start(REGISTRY__URL=front.url).wait_ready()
    world.wait_decisions(1)


def test_a_partition_that_waits_is_handed_over_and_read_by_its_next_owner(world: Any, front: Front) -> None:
    world.trigger("t")
    number, schema = foreign_writer(world)
    first = world.start(state="one", REGISTRY__URL=front.url).wait_ready()
    front.up = False
    event = world.event("unknown")
    world.produce(world.topics.raw, avro.encode(schema, number, event), event["fingerprint"])
    world.producer.flush(30)
    world.wait_until("it waits", lambda: f"for schema {number}" in first.answer("readyz")[1])
    world.start(state="two")
    world.publish(*[world.event(f"e{index}") for index in range(60)])
    front.up = True
    world.wait_decisions(61)
    assert {one["event"]["id"] for one in world.matched()} >= {event["id"]}


def test_when_dead_letters_cannot_be_written_it_ends_and_commits_nothing(world: Any) -> None:
    world.trigger("t")
    admin = AdminClient(world.stack.kafka.librdkafka())
    running = world.start().wait_ready()
    _configure(admin, world.topics.dlq, {"max.message.bytes": "100"})
    world.produce(world.topics.raw, b"{ no json", "k", partition=2)
    world.producer.flush(30)
    assert running.wait_exit(100) == 1
    assert committed(world).get((world.topics.raw, 2), 0) == 0
    _configure(admin, world.topics.dlq, {"max.message.bytes": "4000000"})
    world.start().wait_ready()
    assert [letter.value() for letter in world.wait_letters(1)] == [b"{ no json"]


@pytest.mark.parametrize("store", ["rocksdb", "memory"])
def test_recovery_ends_on_a_compacted_and_on_an_emptied_changelog(world: Any, store: str) -> None:
    world.trigger("t")
    admin = AdminClient(world.stack.kafka.librdkafka())
    changelog = world.topics.fingerprints_changelog
    _configure(
        admin, changelog, {"segment.bytes": "1048576", "segment.ms": "100", "min.cleanable.dirty.ratio": "0"}
    )
    first = world.start(PROCESSOR__STORE=store).wait_ready()
    world.publish(*[world.event(f"a{number}") for number in range(100)])
    world.wait_decisions(100)
    assert first.stop() == 0
    _configure(admin, changelog, {"cleanup.policy": "delete"})  # a compacted topic lets nobody delete records
    _empty(admin, world, range(3))
    _configure(admin, changelog, {"cleanup.policy": "compact"})
    world.produce(changelog, None, "ends with a tombstone", partition=4)
    world.producer.flush(30)
    second = world.start(state="fresh", PROCESSOR__STORE=store).wait_ready()
    world.publish(*[world.event(f"a{number}") for number in range(100)])
    decisions = world.wait_decisions(200)
    assert second.wait_ready().stop() == 0
    kept = Counter(one["verdicts"][0]["outcome"] for one in decisions[0:] if one["partition"] >= 3)
    assert kept["started"] == kept["duplicate"] > 0


def test_a_full_disk_ends_it_and_costs_nothing_but_time(world: Any, small_disk: Path) -> None:
    world.trigger("t")
    # More than RocksDB keeps in memory: 4 MiB a partition.
    events = [world.event(f"{number}-{'x' * 900}") for number in range(32_000)]
    world.publish(*events[:100])
    running = world.start(STATE_DIR=str(small_disk / "state")).wait_ready()
    world.wait_decisions(100)
    (small_disk / "filler").write_bytes(b"x" * _free(small_disk))
    world.publish(*events[100:])
    assert running.wait_exit(150) == 1
    assert "No space left" in running.log.read_text()
    (small_disk / "filler").unlink()
    world.start(state="elsewhere")
    raw = world.topics.raw
    world.wait_until(
        "everything is read",
        lambda: sum(offset for (topic, _), offset in committed(world).items() if topic == raw) == len(events),
    )
    assert {one["event"]["fingerprint"] for one in world.matched()} == {one["fingerprint"] for one in events}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB, where we may mount one."""
    where = tmp_path / "disk"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(where)], check=False)
    if done.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def _free(where: Path) -> int:
    stats = os.statvfs(where)
    return max(0, stats.f_bavail * stats.f_frsize - 65_536)


def _configure(admin: AdminClient, topic: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(20)


def _empty(admin: AdminClient, world: Any, partitions: range) -> None:
    """As DeleteRecords, or a retention that someone set, would."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    topic = world.topics.fingerprints_changelog
    ends = admin.list_offsets({TopicPartition(topic, one): OffsetSpec.latest() for one in partitions})  # type: ignore[no-untyped-call]
    gone = [TopicPartition(topic, one.partition, future.result(20).offset) for one, future in ends.items()]
    for future in admin.delete_records([one for one in gone if one.offset > 0]).values():
        future.result(20)
