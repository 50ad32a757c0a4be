"""The bare chain that ingest-to-run latency is held against: produce, consume, produce, consume.

`middle` is the process in between. `ends` sends at a fixed rate and receives; it prints the latencies as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from headgate.common.topics import Topics

LATE_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("middle", "ends"))
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    bootstrap = os.environ["HEADGATE_KAFKA__BOOTSTRAP"]
    topics = Topics(prefix=os.environ["HEADGATE_KAFKA__PREFIX"])
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topics.prefix}.{options.part}",
            "auto.offset.reset": "earliest",
        }
    )
    if options.part == "middle":
        forward(consumer, producer, topics.raw, topics.matched)
    else:
        latencies = both_ends(consumer, producer, topics, options.rate, options.seconds)
        print(json.dumps(latencies))


def forward(consumer: Consumer, producer: Producer, source: str, target: str) -> None:
    consumer.subscribe([source])
    while True:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            producer.produce(target, key=message.key(), value=message.value())
        producer.poll(0)


def both_ends(
    consumer: Consumer, producer: Producer, topics: Topics, rate: float, seconds: float
) -> list[float]:
    """Milliseconds from produce to the second consume, for every record."""
    ends = [TopicPartition(topics.matched, partition) for partition in range(topics.partitions)]
    for end in ends:
        end.offset = consumer.get_watermark_offsets(end, timeout=10)[1]
    consumer.assign(ends)
    total = int(rate * seconds)

    def send() -> None:
        began = time.perf_counter()
        for number in range(total):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            body = json.dumps({"sent": time.time_ns(), "pad": "x" * 950})
            producer.produce(topics.raw, key=str(number), value=body.encode())
            producer.poll(0)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    found: list[float] = []
    last = time.monotonic() + 60
    while len(found) < total and time.monotonic() < last:
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            continue
        now, value = time.time_ns(), message.value()
        assert value is not None
        found.append((now - json.loads(value)["sent"]) / 1e6)
        if not sender.is_alive():
            last = min(last, time.monotonic() + LATE_SECONDS)
        else:
            last = time.monotonic() + seconds + LATE_SECONDS
    return found


if __name__ == "__main__":
    main()
