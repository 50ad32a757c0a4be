"""Poison reaches the dead-letter topic with its coordinates, and the partition goes on."""

from __future__ import annotations

import pytest
from tests.harness.asking import letters_of, one_run, produce, runs_of
from tests.harness.foreign import Foreign, plain
from tests.harness.observers import TopicReader
from tests.harness.pipeline import Pipeline, documents
from tests.harness.poison import matrix, register_bomb

pytestmark = pytest.mark.kafka

FIXED = 'string(event.data.grade) == "high" || event.data.grade > 2'
AT_THE_ENGINE = "refused by the engine"


@pytest.fixture(scope="module")
def bomb(pipeline: Pipeline) -> int:
    return register_bomb(pipeline.cluster.registry.url, f"{pipeline.prefix}-bomb")


@pytest.mark.parametrize("kind", list(matrix("", 0, 0)))
async def test_each_kind_of_poison_is_buried_as_it_came_and_its_partition_goes_on(
    pipeline: Pipeline, reader: TopicReader, bomb: int, kind: str
) -> None:
    mark = f"poison-{kind.replace(' ', '-')}"
    record = matrix(mark, pipeline.raw_schema_id, bomb)[kind]
    (stored,) = await produce(pipeline, pipeline.topics.raw, [record])
    (letter,) = await letters_of(reader, pipeline.topics.dlq, mark)
    where = tuple(letter.header(f"__connect.errors.{name}") for name in ("topic", "partition", "offset"))
    if kind == AT_THE_ENGINE:
        assert where[0] == pipeline.topics.matched
    else:
        assert (letter.key, letter.value) == (record.key, record.value)
        assert where == (pipeline.topics.raw, str(stored.partition()), str(stored.offset()))
    assert letter.header("__connect.errors.exception.message")
    after = f"after-{mark}"
    await produce(
        pipeline, pipeline.topics.raw, [plain({"token": after, "grade": 5, "n": n}) for n in range(12)]
    )
    await one_run(pipeline, after)
    await pipeline.drained()
    assert len(runs_of(pipeline, after)) == 12
    assert runs_of(pipeline, mark) == []


async def test_replayed_after_its_cause_is_fixed_it_is_one_run_and_none_again(
    pipeline: Pipeline, reader: TopicReader
) -> None:
    kinds = {"grade is a word": "heal-condition", AT_THE_ENGINE: "heal-engine"}
    records = [matrix(mark, 0, 0)[kind] for kind, mark in kinds.items()]
    await produce(pipeline, pipeline.topics.raw, records)
    for mark in kinds.values():
        await letters_of(reader, pipeline.topics.dlq, mark)
    await pipeline.apply(documents(pipeline.engine_url, when=FIXED))
    await pipeline.faults(accept_refused=True)
    try:
        await pipeline.cli("dlq", "replay", "--yes")
        runs = {mark: await one_run(pipeline, mark) for mark in kinds.values()}
        for _ in range(2):
            await pipeline.cli("dlq", "replay", "--yes")
            await pipeline.drained()
        for mark, run in runs.items():
            assert runs_of(pipeline, mark) == [run]
    finally:
        await pipeline.apply(documents(pipeline.engine_url))
        await pipeline.faults()


@pytest.mark.parametrize("headers", ["with its headers", "bare"])
@pytest.mark.parametrize("kind", ["grade is a word", AT_THE_ENGINE])
async def test_produced_again_by_hand_after_the_fix_it_is_one_run(
    pipeline: Pipeline, reader: TopicReader, kind: str, headers: str
) -> None:
    mark = f"hand-{kind}-{headers}".replace(" ", "-")
    await produce(pipeline, pipeline.topics.raw, [matrix(mark, 0, 0)[kind]])
    (letter,) = await letters_of(reader, pipeline.topics.dlq, mark)
    await pipeline.apply(documents(pipeline.engine_url, when=FIXED))
    await pipeline.faults(accept_refused=True)
    try:
        kept = [] if headers == "bare" else [(name, value or b"") for name, value in letter.headers]
        again = Foreign(letter.value, kept, letter.key)
        topic = letter.header("__connect.errors.topic")
        await produce(pipeline, topic, [again, again])
        run = await one_run(pipeline, mark)
        await pipeline.drained()
        assert runs_of(pipeline, mark) == [run]
    finally:
        await pipeline.apply(documents(pipeline.engine_url))
        await pipeline.faults()
