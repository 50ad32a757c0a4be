"""The outbox on a real Kafka: a flush ends when all is stored, tells what never will be, and holds nobody up for long."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headgate.common.settings import KafkaSettings
from headgate.processor.batching import DeliveryFailed, Outbox
from headgate.processor.batching import outbox as outboxes
from headgate.processor.batching.outbox import FEW_RECORDS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture
def topic(kafka: str) -> str:
    """A new one, of one partition."""
    name = f"o{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    return name


def stored(bootstrap: str, topic: str) -> list[bytes | None]:
    """The keys of what the topic holds now, in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.assign([TopicPartition(topic, 0, 0)])
    keys: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(keys) < end:
        assert time.monotonic() < deadline, f"read {len(keys)} of {end} records"
        for message in consumer.consume(1_000, 0.5):
            assert message.error() is None
            key = message.key()
            keys.append(key.encode() if isinstance(key, str) else key)
    consumer.close()
    return keys


async def test_what_was_flushed_is_stored_and_what_cannot_be_stored_is_told(kafka: str, topic: str) -> None:
    outbox = Outbox(KafkaSettings(bootstrap=kafka))
    for number in range(1_000):
        outbox.send(topic, b"x", str(number))
    await outbox.flush()
    await outbox.close()
    assert stored(kafka, topic) == [str(number).encode() for number in range(1_000)]
    missing = Outbox(KafkaSettings(bootstrap=kafka), **{"topic.metadata.propagation.max.ms": 500})
    missing.send(f"{topic}-missing", b"x", None)
    with pytest.raises(DeliveryFailed, match="missing"):
        await missing.flush()
    await missing.close()


async def test_nothing_can_be_sent_during_a_flush_which_might_then_never_end(kafka: str, topic: str) -> None:
    outbox = Outbox(KafkaSettings(bootstrap=kafka))
    for _ in range(FEW_RECORDS + 1):  # fewer might be stored before anybody else has a turn
        outbox.send(topic, b"mine", None)
    flushing = asyncio.create_task(outbox.flush())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="take turns"):
        outbox.send(topic, b"other", None)
    await asyncio.wait_for(flushing, 30)
    outbox.send(topic, b"next", None)
    await asyncio.wait_for(outbox.flush(), 30)
    await outbox.close()


async def test_few_records_are_flushed_without_another_thread(
    kafka: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "_AT_ONCE_SECONDS", 30.0)
    outbox = Outbox(KafkaSettings(bootstrap=kafka))
    outbox._thread.shutdown()
    for number in range(FEW_RECORDS):
        outbox.send(topic, b"x", str(number))
    await outbox.flush()
    assert stored(kafka, topic) == [str(number).encode() for number in range(FEW_RECORDS)]


async def test_a_flush_that_takes_long_leaves_the_loop_to_others() -> None:
    outbox = Outbox(KafkaSettings(bootstrap="127.0.0.1:1"), **{"delivery.timeout.ms": 1_000})
    outbox.send("nowhere", b"x", None)
    flushing = asyncio.create_task(outbox.flush())
    turns = 0
    while not flushing.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 20
    with pytest.raises(DeliveryFailed, match="nowhere"):
        await flushing
    await outbox.close()
