"""A bare confluent-kafka loop with the same job: as fast as Python gets without a framework, and as careless.

Its dict is lost when it ends, and nothing guards against two of it: a mark to measure against, not a design.
"""

from __future__ import annotations

import io
import os
from typing import Any, cast

import fastavro
import orjson
from cel_expr_python import cel
from confluent_kafka import Consumer, Producer
from tests.bench.events import CONDITION

from headgate.common import avro
from headgate.common.topics import Topics

BATCH = 2000


def main() -> None:
    bootstrap = os.environ["HEADGATE_KAFKA__BOOTSTRAP"]
    topics = Topics(prefix=os.environ["HEADGATE_KAFKA__PREFIX"])
    schema = avro.schema("RawEvent")
    environment = cel.NewEnv(variables={"event": cel.Type.DYN})
    condition = environment.compile(CONDITION)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topics.prefix}.loop",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "none",
            "queue.buffering.max.messages": 500_000,
        }
    )
    consumer.subscribe([topics.raw])
    seen: set[bytes] = set()
    while True:
        messages = consumer.consume(BATCH, 0.5)
        for message in messages:
            key, value = message.key(), message.value()
            if message.error() or not isinstance(key, bytes) or not isinstance(value, bytes):
                continue
            event = cast(dict[str, Any], fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None))
            if key in seen:
                continue
            seen.add(key)
            producer.produce(topics.fingerprints_changelog, key=key, value=b"1")
            event["data"] = orjson.loads(event["data"])
            activation = environment.Activation({"event": event})
            if condition.eval(activation=activation).value() is True:
                producer.produce(topics.matched, key=key, value=value)
        if messages:
            producer.flush()
            consumer.commit(asynchronous=True)


if __name__ == "__main__":
    main()
