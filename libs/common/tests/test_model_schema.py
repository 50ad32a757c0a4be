"""What an editor offers as a default is what `headgate apply` accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from headgate.common import catalogue
from headgate.common.model import Duration, Source, Trigger, parse_duration
from headgate.common.model.jsonschema import json_schema

MODELS = [Trigger, Source, *(provider.config for provider in catalogue.providers().values())]


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_default_that_has_a_pattern_follows_it(model: type[BaseModel]) -> None:
    for node in nodes(json_schema(model)):
        if isinstance(node.get("pattern"), str) and isinstance(node.get("default"), str):
            assert re.search(node["pattern"], node["default"]), node


def test_a_default_duration_stands_as_people_write_it_and_is_read_back() -> None:
    class Waiting(BaseModel):
        grace: Annotated[Duration, Field(description="How long.")] = timedelta(minutes=90)

    default = json_schema(Waiting)["properties"]["grace"]["default"]
    assert default == "1h30m"
    assert Waiting.model_validate({"grace": default}) == Waiting()


@pytest.mark.parametrize("text", ["36501d", "99999999999d", "1" * 400 + "s"])
def test_a_duration_beyond_the_calendar_is_refused_in_words(text: str) -> None:
    assert parse_duration("36500d") == timedelta(days=36_500)
    with pytest.raises(ValueError, match="longer than a hundred years"):
        parse_duration(text)
