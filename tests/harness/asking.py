"""What tests ask a pipeline: the runs of one event, and to send one by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from confluent_kafka import Message, Producer
from tests.harness.foreign import Foreign
from tests.harness.observers import Record, TopicReader
from tests.harness.pipeline import Pipeline
from tests.harness.waiting import until

LARGEST = 4 * 2**20


def runs_of(pipeline: Pipeline, mark: str) -> list[str]:
    """The run ids that the engine has for this event."""
    return [row.run_id for row in pipeline.runs() if row.token == mark]


async def one_run(pipeline: Pipeline, mark: str, seconds: float = 30) -> str:
    """Wait for this event's run; its id."""
    await until(f"{mark} has a run", lambda: bool(runs_of(pipeline, mark)), seconds=seconds)
    return runs_of(pipeline, mark)[0]


async def letters_of(reader: TopicReader, topic: str, mark: str, count: int = 1) -> list[Record]:
    """Wait for so many dead letters of this event."""

    def found() -> list[Record]:
        wanted = mark.encode()
        return [one for one in reader.records(topic) if wanted in (one.value or b"") or wanted == one.key]

    await until(f"{mark} has {count} dead letters", lambda: len(found()) >= count, seconds=30)
    return found()


async def produce(pipeline: Pipeline, topic: str, records: Sequence[Foreign]) -> list[Message]:
    """Another program's producer: librdkafka, a random partition, and the broker's ack for each."""
    config = {"bootstrap.servers": pipeline.cluster.bootstrap, "partitioner": "random", "log_level": 0}
    producer = Producer({**config, "message.max.bytes": LARGEST})
    stored: list[Message] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        stored.append(message)

    for record in records:
        producer.produce(
            topic, value=record.value, key=record.key, headers=list(record.headers), on_delivery=delivered
        )
    await asyncio.to_thread(producer.flush, 20)
    assert len(stored) == len(records)
    return stored
