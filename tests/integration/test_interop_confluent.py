"""confluent-kafka's own deserializer reads our records from the registry alone: it is given no schema of ours."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def _read(told: Any, topic: str) -> list[tuple[str, dict[str, Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its OAuth support warns on import
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext
    client = SchemaRegistryClient({"url": told.registry, "timeout": 20})
    decode = AvroDeserializer(client)
    consumer = Consumer(
        {"bootstrap.servers": told.bootstrap, "group.id": "interop", "enable.auto.commit": False}
    )
    places = [TopicPartition(topic, partition) for partition in range(told.topics.get(topic).partitions)]
    found = []
    for place in places:
        low, high = consumer.get_watermark_offsets(place, timeout=10)
        place.offset = low
        consumer.assign([place])
        for _ in range(high - low):
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            if key != b"poison":
                context = SerializationContext(topic, MessageField.VALUE)
                found.append((key.decode(), decode(value, context)))
    consumer.close()
    client.close()
    return found


def test_raw_events_decode(told: Any) -> None:
    [(key, event)] = _read(told, told.topics.raw)
    assert key == event["fingerprint"] == told.fingerprint
    assert event["id"] == told.event_id
    assert event["type"] == "issues.opened"
    assert json.loads(event["data"])["issue"]["title"] == "Grüße aus Köln"


def test_matched_events_decode(told: Any) -> None:
    [(key, matched)] = _read(told, told.topics.matched)
    assert matched["trigger"] == "interop"
    assert matched["run_id"] == key
    assert matched["event"]["id"] == told.event_id


def test_decisions_decode(told: Any) -> None:
    decisions = dict(_read(told, told.topics.decisions))
    decision = decisions[told.event_id]
    assert [(one["trigger"], one["outcome"]) for one in decision["verdicts"]] == [("interop", "started")]
