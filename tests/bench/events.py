"""The events of the processor's benchmark: 600 bytes, one in ten a repeat, two in five wanted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer
from tests.bench.world import Prefix, World

CONDITION = 'event.data.severity == "high" && "a" in event.data.labels'
SOURCE = "bench"
BYTES = 600
REPEATS = 0.1
WARM_UP_EVENTS = 200_000
TRIGGER = f"""
apiVersion: headgate/v1
kind: Trigger
metadata: {{name: bench}}
sources: [{{provider: generic-webhook, name: {SOURCE}, config: {{secrets: [{{env: BENCH_SECRET}}]}}}}]
when: {json.dumps(CONDITION)}
action: {{local: {{}}}}
"""


@dataclass
class Load:
    """What was sent, and what a correct contender makes of it."""

    events: int = 0
    wanted: int = 0
    bytes: int = 0


def wanted(data: dict[str, object]) -> bool:
    labels = data["labels"]
    return data["severity"] == "high" and isinstance(labels, list) and "a" in labels


def records(prefix: Prefix, count: int, seed: int) -> Iterator[tuple[str, bytes, bool]]:
    """Key, Avro bytes, and whether it should be forwarded."""
    rng = random.Random(seed)
    recent: list[str] = []
    now = 1_760_000_000_000_000
    for number in range(count):
        if recent and rng.random() < REPEATS:
            key, repeat = rng.choice(recent), True
        else:
            key, repeat = f"generic/{SOURCE}:{seed}-{number:09d}", False
            recent.append(key)
            del recent[:-1000]
        data: dict[str, object] = {
            "id": number,
            "severity": "high" if rng.random() < 0.6 else "low",
            "labels": [one for one in "abcd" if rng.random() < 2 / 3],
            "service": {"id": f"svc-{number % 50}", "name": "payments"},
            "title": "queue is longer than it should be",
        }
        event = {
            "id": f"{number:08x}-0000-7000-8000-{seed:012x}",
            "fingerprint": key,
            "source": SOURCE,
            "provider": "generic-webhook",
            "type": "alert",
            "subject": f"svc-{number % 50}",
            "occurred_at": now + number,
            "received_at": now + number,
            "data": json.dumps(data),
            "attributes": {"content-type": "application/json"},
        }
        value = prefix.codec.encode("RawEvent", event)
        if len(value) < BYTES - 20:
            data["detail"] = "x" * (BYTES - 15 - len(value))
            event["data"] = json.dumps(data)
            value = prefix.codec.encode("RawEvent", event)
        yield key, value, wanted(data) and not repeat


def fill(prefix: Prefix, count: int, seed: int = 1) -> Load:
    """Put them on the raw topic; returns when every one is stored."""
    producer = Producer(
        {
            **prefix.kafka.librdkafka(),
            "enable.idempotence": True,  # or a retry could put a repeat before its original
            "linger.ms": 20,
            "compression.type": "none",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    load = Load()
    for key, value, forward in records(prefix, count, seed):
        producer.produce(prefix.topics.raw, key=key, value=value)
        load.events += 1
        load.wanted += forward
        load.bytes += len(value)
        if load.events % 5000 == 0:
            producer.poll(0)
    producer.flush(120)
    return load


def warm_up(world: World) -> None:
    """A broker that has just started compiles itself for a while; the first contender should not pay for it."""
    print("warming Kafka up", flush=True)
    with world.prefix() as prefix:
        fill(prefix, WARM_UP_EVENTS)
