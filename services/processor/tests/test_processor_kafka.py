"""The whole processor as a process, against a real Kafka and a real registry."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import Producer

from headgate.common import deadletter, fingerprints
from headgate.common.failpoints import EXIT_CODE

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

MIB = 1_048_576


def test_one_event_becomes_one_matched_record_and_its_repeat_a_duplicate(world: Any) -> None:
    uid = world.trigger("t", when="event.data.n == 1")
    world.start().wait_ready()
    world.publish(
        world.event("a"), world.event("a"), world.event("b", {"n": 2}), world.event("c", source="other")
    )
    decisions = {(one["fingerprint"], one["offset"]): one for one in world.wait_decisions(4)}
    assert [(one["trigger"], one["trigger_uid"], one["event"]["fingerprint"]) for one in world.matched()] == [
        ("t", uid, "github/gh:a")
    ]
    reasons = {
        verdict["outcome"]: verdict["reason"] for one in decisions.values() for verdict in one["verdicts"]
    }
    assert reasons["filtered"] == "`event.data.n == 1` is false: it is 2"
    assert reasons["duplicate"].startswith("heard of before: first seen at events.raw/")
    assert set(reasons) == {"started", "filtered", "duplicate"}
    unheard = next(one for one in decisions.values() if one["source"] == "other")
    assert unheard["reason"] == "no trigger listens to source other"


@pytest.mark.parametrize(
    "point",
    [
        "processor.table-before-output:7",
        "processor.output-before-flush:2",
        "processor.flush-before-commit:2",
        "processor.finished-before-commit:2",
    ],
)
def test_killed_between_any_two_steps_it_loses_nothing_and_starts_no_second_run(
    world: Any, point: str
) -> None:
    world.trigger("t")
    first = [world.event(f"a{number}") for number in range(40)]
    world.publish(*first)
    killed = world.start(failpoint=point, PROCESSOR__BATCH_RECORDS="5")
    assert killed.wait_exit() == EXIT_CODE
    second = [world.event(f"b{number}") for number in range(40)]
    world.publish(*second, *[{**event, "id": f"again-{event['id']}"} for event in first])
    # Other events stand between the repeats by now; the local state of the dead process is used again.
    world.start().wait_ready()
    world.wait_decisions(120)
    runs = Counter(one["event"]["fingerprint"] for one in world.matched())
    assert set(runs) == {event["fingerprint"] for event in (*first, *second)}
    by_run: dict[str, set[str]] = {}
    for one in world.matched():
        by_run.setdefault(one["event"]["fingerprint"], set()).add(one["run_id"])
    assert all(len(ids) == 1 for ids in by_run.values())
    assert not any(one["event"]["id"].startswith("again-") for one in world.matched())


def test_poison_reaches_the_dead_letters_once_each_and_the_partition_goes_on(world: Any) -> None:
    world.trigger("t")
    avro_id = world.stack.schema_ids[world.topics.raw]
    good = world.event("good")
    body = world.codec.encode("RawEvent", good)[5:]
    frame = b"\x00" + avro_id.to_bytes(4, "big")
    kind = [("content-type", b"application/avro")]
    poison: dict[str, tuple[bytes | None, list[tuple[str, bytes]], str]] = {
        "bad magic": (b"\x07" + avro_id.to_bytes(4, "big") + body, kind, "undecodable"),
        "unknown id": (b"\x00" + (987_654).to_bytes(4, "big") + body, kind, "unknown-schema"),
        "eight byte id": (b"\x00" + avro_id.to_bytes(8, "big") + body, kind, "unknown-schema"),
        "empty": (b"", [], "undecodable"),
        "tombstone": (None, [], "undecodable"),
        "trailing": (frame + body + b"!!", kind, "undecodable"),
        "truncated": (frame + body[:-3], kind, "undecodable"),
        "null bomb": (frame + b"\xff\xff\xff\xff\x0f" + body, kind, "undecodable"),
        "oversize": (b'"' + b"x" * (MIB - 1) + b'"', [], "too-large"),
        "no json": (b"{broken", [], "undecodable"),
        "repeated name": (b'{"a": 1, "a": 2}', [], "undecodable"),
        "deep": (b"[" * 65 + b"]" * 65, [], "undecodable"),
        "headers not utf-8": (b"{}", [("content-type", b"\xff\xfe")], "undecodable"),
        "no ce_id": (
            b"{}",
            [("ce_specversion", b"1.0"), ("ce_source", b"s"), ("ce_type", b"t")],
            "undecodable",
        ),
    }
    for name, (value, headers, _) in poison.items():
        world.produce(world.topics.raw, value, name, [*headers, ("x-note", b"\xff\x00kept")], partition=3)
    world.producer.flush(30)
    world.publish(good, world.event("good too"))
    world.start().wait_ready()
    world.wait_decisions(2)
    letters: dict[str, Any] = {}
    for letter in world.wait_letters(len(poison)):
        name = letter.key().decode()
        assert name not in letters, f"{name} died twice"
        letters[name] = letter
    assert set(letters) == set(poison)
    for offset, (name, (value, headers, code)) in enumerate(poison.items()):
        reason = deadletter.read(letters[name].headers())
        assert (reason.code, reason.topic, reason.partition, reason.offset) == (
            code, world.topics.raw, 3, offset,
        ), (name, reason)  # fmt: skip
        assert letters[name].value() == value
        assert deadletter.original_headers(letters[name].headers()) == [*headers, ("x-note", b"\xff\x00kept")]
        assert reason.message
    assert len(world.matched()) == 2


def test_foreign_records_of_any_form_and_key_start_one_run_each(world: Any) -> None:
    world.trigger(
        "bills", sources=[{"provider": "events", "match": {"source": "billing/*", "type": "invoice.*"}}]
    )
    world.trigger("all", sources=[{"provider": "events"}])
    binary = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"billing/eu"),
        ("ce_type", b"invoice.paid"),
    ]
    structured = {
        "specversion": "1.0",
        "id": "2",
        "source": "billing/us",
        "type": "invoice.due",
        "data": {"n": 1},
    }
    for _ in range(2):
        for partition, key in ((0, None), (1, "any"), (2, b"\xff\x00")):
            world.produce(world.topics.raw, b'{"n": 1}', key, binary, partition=partition)
            world.produce(
                world.topics.raw,
                json.dumps(structured).encode(),
                key,
                [("content-type", b"application/cloudevents+json; charset=utf-8")],
                partition=partition,
            )
            world.produce(world.topics.raw, b'{"plain": true}', key, partition=partition)
    world.producer.flush(30)
    world.start().wait_ready()
    decisions = world.wait_decisions(18)
    started = Counter(
        (verdict["trigger"], one["fingerprint"])
        for one in decisions
        for verdict in one["verdicts"]
        if verdict["outcome"] == "started"
    )
    plain = "events/json:" + fingerprints.of_bytes(b'{"plain": true}').removeprefix("sha256:")
    assert started == {
        ("bills", "events/billing/eu:1"): 1,
        ("bills", "events/billing/us:2"): 1,
        ("all", "events/billing/eu:1"): 1,
        ("all", "events/billing/us:2"): 1,
        ("all", plain): 1,
    }
    assert len({one["event_id"] for one in decisions}) == 18
    n = world.topics.partitions
    for message in world.read(world.topics.rekeyed):
        assert fingerprints.partition_of(message.key(), n) == message.partition()
    homes = {
        one["fingerprint"]: fingerprints.partition_of(one["fingerprint"].encode(), n) for one in decisions
    }
    assert all(one["partition"] == homes[one["fingerprint"]] for one in decisions)


def test_a_condition_that_fails_costs_its_own_trigger_only_and_the_replay_is_for_it_alone(world: Any) -> None:
    world.trigger("good")
    world.trigger("broken", when="event.data.missing == 1")
    world.start().wait_ready()
    event = world.event("a", {"n": 1, "mine": True})
    world.publish(event)
    letter = world.wait_letters(1)[0]
    reason = deadletter.read(letter.headers())
    assert (reason.code, reason.trigger, reason.event_id) == ("condition-error", "broken", event["id"])
    assert [one["trigger"] for one in world.matched()] == ["good"]
    world.trigger("broken", when="event.data.n == 1 && event.data.mine", revision=2)
    world.wait_revision(2)
    before = len(world.decisions())
    replay = deadletter.replay_headers(letter.headers(), "dlq/0/0")
    for _ in range(2):
        world.produce(reason.topic, letter.value(), letter.key(), replay)
    world.producer.flush(30)
    world.wait_decisions(before + 2)
    runs = [one for one in world.matched() if one["event"]["id"] == event["id"]]
    assert Counter(one["trigger"] for one in runs) == {"good": 1, "broken": 2}
    assert len({one["run_id"] for one in runs}) == 2


async def _publish_with_a_broken_header_name(world: Any, key: bytes, value: bytes) -> None:
    """No client of ours writes such a header; kcat does. So the batch is built by hand."""

    class Broken(str):
        __slots__ = ()

        def encode(self, *_: Any) -> bytes:
            return b"\xff\xfe"

    batch = _DefaultRecordBatchBuilderPy(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=10_000,
    )  # fmt: skip
    batch.append(0, timestamp=1, key=key, value=value, headers=[(Broken("xx"), b"v")])
    producer: Any = AIOKafkaProducer(bootstrap_servers=world.stack.bootstrap)  # type: ignore[no-untyped-call]
    await producer.start()
    try:
        client: Any = producer.client
        await client.add_topic(world.topics.raw)
        await client._maybe_wait_metadata()
        node = client.cluster.leader_for_partition(TopicPartition(world.topics.raw, 1))
        request = ProduceRequest(None, -1, 10_000, [(world.topics.raw, [(1, bytes(batch.build()))])])
        answer = await client.send(node, request)
        assert answer.topics[0][1][0][1] == 0
    finally:
        await producer.stop()


def test_what_only_compression_brought_past_the_topics_limit_is_dead_and_stops_nothing(world: Any) -> None:
    world.trigger("all", sources=[{"provider": "events"}])
    packed = Producer(
        {**world.stack.kafka.librdkafka(), "compression.type": "gzip", "message.max.bytes": 40_000_000}
    )
    packed.produce(world.topics.raw, b'"%s"' % (b"x" * 12_000_000), partition=1)
    packed.produce(world.topics.raw, b"{}", b"k" * 3_000_000, partition=1)
    packed.produce(world.topics.raw, b"{}", headers=[("tracestate", b"h" * 5_000_000)], partition=1)
    packed.produce(world.topics.raw, b'{"good": 1}', partition=1)
    assert packed.flush(30) == 0
    running = world.start().wait_ready()
    letters = world.wait_letters(3)
    assert {deadletter.read(letter.headers()).code for letter in letters} == {"too-large"}
    world.wait_decisions(1)
    assert [one["event"]["data"] for one in world.matched()] == ['{"good": 1}']
    assert running.process.poll() is None


def test_what_a_transaction_took_back_starts_nothing_and_its_markers_are_no_stall(world: Any) -> None:
    world.trigger("all", sources=[{"provider": "events"}])
    producer = Producer({**world.stack.kafka.librdkafka(), "transactional.id": "another-program"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(world.topics.raw, b'{"n": %d}' % number, partition=number)
        producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(world.topics.raw, b'{"taken": "back"}', partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    limits = {"PROCESSOR__STALL_SECONDS": "4", "PROCESSOR__STALL_EXIT_SECONDS": "12"}
    running = world.start(**limits).wait_ready()
    world.wait_decisions(6)
    # Two looks of the watchdog and its patience pass.
    until = time.monotonic() + 16
    while time.monotonic() < until:
        assert running.ready, running.answer("readyz")
        time.sleep(0.5)
    assert {one["event"]["data"] for one in world.matched()} == {f'{{"n": {number}}}' for number in range(6)}
    assert running.process.poll() is None


async def test_a_header_name_that_no_client_can_read_stops_nothing(world: Any) -> None:
    world.trigger("all", sources=[{"provider": "events"}])
    for number in range(20):
        world.produce(world.topics.raw, b'{"n": %d}' % number, partition=number % 6)
    world.producer.flush(30)
    await _publish_with_a_broken_header_name(world, b"odd", b'{"odd": 1}')
    await _publish_with_a_broken_header_name(world, b"odd too", b'{"odd": 2}')
    for number in range(20, 40):
        world.produce(world.topics.raw, b'{"n": %d}' % number, partition=number % 6)
    world.producer.flush(30)
    running = await asyncio.to_thread(world.start().wait_ready)
    letters = await asyncio.to_thread(world.wait_letters, 2)
    assert {letter.key(): letter.value() for letter in letters} == {
        b"odd": b'{"odd": 1}',
        b"odd too": b'{"odd": 2}',
    }
    assert "not UTF-8" in deadletter.read(letters[0].headers()).message
    await asyncio.to_thread(world.wait_decisions, 40)
    assert {json.loads(one["event"]["data"])["n"] for one in world.matched()} == set(range(40))
    assert len(world.letters()) == 2
    assert running.process.poll() is None


def test_the_plain_driver_decides_the_same(world: Any) -> None:
    world.trigger("t", when="event.data.n == 1")
    running = world.start(PROCESSOR__DRIVER="plain", PROCESSOR__STORE="memory").wait_ready()
    world.publish(world.event("a"), world.event("a"), world.event("b", {"n": 2}))
    world.produce(world.topics.raw, b"{broken", "k", partition=4)
    world.producer.flush(30)
    decisions = world.wait_decisions(3)
    assert Counter(one["verdicts"][0]["outcome"] for one in decisions) == {
        "started": 1, "duplicate": 1, "filtered": 1,
    }  # fmt: skip
    assert len(world.wait_letters(1)) == 1
    assert running.stop() == 0
    world.start(PROCESSOR__DRIVER="plain", PROCESSOR__STORE="memory", state="other").wait_ready()
    world.publish(world.event("a"))
    assert world.wait_decisions(4)
    assert len(world.matched()) == 1


def test_after_its_window_a_fingerprint_counts_as_new_and_is_swept_from_the_table(world: Any) -> None:
    world.trigger("t", dedupe={"window": "2s"})
    running = world.start(PROCESSOR__DEDUPE_TTL="2s", PROCESSOR__SWEEP_SECONDS="0.2").wait_ready()
    first, again = world.event("a"), world.event("a")
    world.publish(first)
    world.wait_decisions(1)
    # The broker's clock has to pass the window: other events of the partition carry it.
    home = fingerprints.partition_of(first["fingerprint"].encode(), world.topics.partitions)

    def tombstone() -> bool:
        world.produce(world.topics.rekeyed, b'{"tick": "%s"}' % uuid.uuid4().hex.encode(), partition=home)
        world.producer.flush(30)
        changes = [
            m for m in world.read(world.topics.fingerprints_changelog) if m.key().decode().endswith(":a")
        ]
        return len(changes) == 2 and changes[1].value() is None

    world.wait_until("it is swept", tombstone)
    assert len(world.matched()) == 1
    world.publish(again)
    world.wait_until("it counts as new", lambda: len(world.matched()) == 2)
    assert len({one["run_id"] for one in world.matched()}) == 1
    assert "headgate_processor_swept_total 1.0" in running.answer("metrics")[1]
