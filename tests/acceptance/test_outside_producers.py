"""Other programs write to the raw topic in their own ways; each event is one run, however often it is written."""

from __future__ import annotations

import pytest
from tests.harness import ids
from tests.harness.asking import one_run, produce, runs_of
from tests.harness.foreign import SOURCE, Foreign, avro_body, binary, framed, plain, raw_event, structured
from tests.harness.pipeline import TRIGGER, Pipeline

pytestmark = pytest.mark.kafka


def written(form: str, mark: str, schema_id: int) -> Foreign:
    data = {"token": mark, "grade": 5, "refuse": False}
    match form:
        case "json":
            return plain(data)
        case "structured":
            return structured(mark, data)
        case "binary":
            return binary(mark, data)
        case _:
            return Foreign(framed(schema_id, avro_body(raw_event(mark, data))))


@pytest.mark.parametrize("form", ["json", "structured", "binary", "avro"])
async def test_a_record_of_another_program_is_one_run_and_none_again(pipeline: Pipeline, form: str) -> None:
    mark = f"outside-{form}"
    record = written(form, mark, pipeline.raw_schema_id)
    await produce(pipeline, pipeline.topics.raw, [record])
    await one_run(pipeline, mark)
    await produce(pipeline, pipeline.topics.raw, [record] * 12)
    await pipeline.drained()
    assert len(runs_of(pipeline, mark)) == 1


async def test_both_modes_of_one_cloud_event_are_the_same_event(pipeline: Pipeline) -> None:
    mark = "outside-both"
    data = {"token": mark, "grade": 5, "refuse": False}
    await produce(pipeline, pipeline.topics.raw, [structured(mark, data), binary(mark, data)] * 3)
    run = await one_run(pipeline, mark)
    await pipeline.drained()
    assert runs_of(pipeline, mark) == [run]
    assert run == ids.run_id(pipeline.prefix, TRIGGER, f"events/{SOURCE}:{mark}")


async def test_one_that_the_condition_refuses_starts_nothing(pipeline: Pipeline) -> None:
    mark = "outside-low"
    await produce(pipeline, pipeline.topics.raw, [plain({"token": mark, "grade": 1})])
    await pipeline.drained()
    assert runs_of(pipeline, mark) == []
