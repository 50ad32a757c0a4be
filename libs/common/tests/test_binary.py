"""What is written by hand is what fastavro writes."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common import avro, binary

longs = st.integers(-(2**63), 2**63 - 1)
events = st.fixed_dictionaries(
    {
        **{
            name: st.text(max_size=200)
            for name in ("id", "fingerprint", "source", "provider", "type", "data")
        },
        "subject": st.none() | st.text(max_size=200),
        "occurred_at": longs,
        "received_at": longs,
        "attributes": st.dictionaries(st.text(max_size=80), st.text(max_size=80), max_size=70),
    }
)
encode = binary.raw_event(70_000)


@given(events)
def test_a_raw_event_by_hand_is_byte_for_byte_that_of_fastavro(event: dict[str, Any]) -> None:
    assert encode(event) == avro.encode(avro.schema("RawEvent"), 70_000, event)


def test_both_moments_may_be_the_same() -> None:
    event = dict.fromkeys(("id", "fingerprint", "source", "provider", "type", "data"), "x")
    whole = {**event, "subject": None, "occurred_at": 1, "received_at": 1, "attributes": {}}
    assert encode(whole) == avro.encode(avro.schema("RawEvent"), 70_000, whole)


@pytest.mark.parametrize("size", [0, 63, 64, 127, 128, 8191, 8192, 8193, 2_000_000])
def test_a_text_of_any_length_is_written_as_fastavro_does(size: int) -> None:
    for written in ("x" * size, "x" * (size % 2) + "é" * (size // 2)):
        expected = io.BytesIO()
        fastavro.schemaless_writer(expected, "string", written)
        assert binary.text(written) == expected.getvalue()


def test_the_schema_is_the_one_that_is_written_by_hand() -> None:
    fields = json.loads(avro.schema_text("RawEvent"))["fields"]
    assert [one["name"] for one in fields] == [
        "id", "fingerprint", "source", "provider", "type", "subject", "occurred_at", "received_at", "data",
        "attributes",
    ]  # fmt: skip
