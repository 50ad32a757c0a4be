"""Raw bytes of any producer into events, or into the reason why not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common import avro, fingerprints
from headgate.common.errors import Poison, TooLarge, Undecodable
from headgate.processor.records import Incoming, NeedsSchema, Reader

OWN = 7
EVENT: dict[str, Any] = {
    "id": "e1", "fingerprint": "github/gh:1", "source": "gh", "provider": "github-webhook", "type": "push",
    "subject": None, "occurred_at": 5, "received_at": 6, "data": '{"n": 1}', "attributes": {"a": "b"},
}  # fmt: skip


def read(value: bytes | None, *headers: tuple[str, bytes]) -> Incoming:
    return Reader(OWN).read(value, headers, "raw", 3, 42, 1_000)


def ours(**fields: Any) -> bytes:
    return avro.encode(avro.schema("RawEvent"), OWN, {**EVENT, **fields})


def test_our_avro_gives_its_fields_and_its_body_as_it_stands() -> None:
    incoming = read(ours())
    assert incoming.event == EVENT
    assert incoming.body == ours()[5:]
    assert incoming.content() == {"n": 1}
    assert not incoming.foreign


def test_avro_of_another_writer_waits_for_its_schema_and_reads_as_ours() -> None:
    text = json.loads(avro.schema_text("RawEvent"))
    text["fields"] = [one for one in text["fields"] if one["name"] != "attributes"]
    older = avro.parse(json.dumps(text))
    value = avro.encode(older, 9, {key: one for key, one in EVENT.items() if key != "attributes"})
    reader = Reader(OWN)
    with pytest.raises(NeedsSchema) as need:
        reader.read(value, (), "raw", 0, 0, 0)
    reader.learn(need.value.schema_id, older)
    incoming = reader.read(value, (), "raw", 0, 0, 0)
    assert incoming.event == {**EVENT, "attributes": {}}
    assert incoming.body is None


@pytest.mark.parametrize("field", ["id", "fingerprint", "source"])
def test_an_event_without_identity_is_poison(field: str) -> None:
    with pytest.raises(Undecodable, match=field):
        read(ours(**{field: ""}))


def test_data_that_is_no_json_is_poison() -> None:
    with pytest.raises(Undecodable, match="not JSON"):
        read(ours(data="{")).content()


def test_a_binary_cloud_event_takes_its_attributes_from_headers() -> None:
    incoming = read(
        b'{"n": 1}',
        ("ce_specversion", b"1.0"), ("ce_id", b"17"), ("ce_source", b"billing/eu"), ("ce_type", b"invoice.paid"),
        ("ce_time", b"2026-01-02T03:04:05Z"), ("ce_subject", b"inv-1"), ("ce_tenant", b"acme"),
        ("content-type", b"application/json"),
    )  # fmt: skip
    event = incoming.event
    assert (event["fingerprint"], event["source"], event["type"]) == (
        "events/billing/eu:17",
        "billing/eu",
        "invoice.paid",
    )
    assert (event["subject"], event["attributes"]) == ("inv-1", {"tenant": "acme"})
    assert event["occurred_at"] == 1_767_323_045_000_000
    assert incoming.content() == {"n": 1}
    assert event["id"] == fingerprints.foreign_event_id("raw", 3, 42)


def test_a_structured_cloud_event_is_the_same_event() -> None:
    document = {
        "specversion": "1.0",
        "id": "17",
        "source": "billing/eu",
        "type": "invoice.paid",
        "data": {"n": 1},
    }
    incoming = read(json.dumps(document).encode(), ("content-type", b"application/cloudevents+json"))
    assert incoming.event["fingerprint"] == "events/billing/eu:17"
    assert incoming.content() == {"n": 1}
    assert json.loads(incoming.event["data"]) == {"n": 1}


def test_plain_json_is_its_content() -> None:
    one, two = read(b'{"n": 1}'), read(b'{"n":  1}')
    assert one.event["fingerprint"].startswith("events/json:")
    assert one.event["fingerprint"] != two.event["fingerprint"]
    assert (one.event["source"], one.event["type"]) == ("", "")


def test_a_fingerprint_in_the_headers_counts() -> None:
    assert read(b"{}", ("headgate-fingerprint", b"mine/1")).event["fingerprint"] == "mine/1"


def test_a_rekeyed_record_keeps_the_id_of_where_it_first_stood() -> None:
    origin = [("headgate-origin", b"headgate.events.raw/5/9")]
    copy = Reader(7).read(b"{}", origin, "headgate.events.rekeyed", 3, 42, 1_700_000_000_000)
    assert copy.event["id"] == fingerprints.foreign_event_id("headgate.events.raw", 5, 9)


@pytest.mark.parametrize(
    "origin", [b"headgate.events.raw/5/9", "a/²/3".encode(), b"a/1/" + b"9" * 5_000, b"a\nb/1/1"]
)
def test_a_strangers_word_for_where_his_record_first_stood_is_nothing(origin: bytes) -> None:
    incoming = read(b"{}", ("headgate-origin", origin))
    assert incoming.event["id"] == fingerprints.foreign_event_id("raw", 3, 42)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "yesterday"])
def test_a_time_that_is_none_is_that_of_the_broker(time: str) -> None:
    document = {"id": "17", "source": "s", "type": "t", "time": time}
    incoming = read(json.dumps(document).encode(), ("content-type", b"application/cloudevents+json"))
    assert incoming.event["occurred_at"] == incoming.event["received_at"]


def test_an_attribute_that_is_null_is_not_there() -> None:
    document = {"id": "17", "source": "s", "type": "t", "subject": None, "tenant": None, "data_base64": None}
    structured = ("content-type", b"application/cloudevents+json")
    event = read(json.dumps(document).encode(), structured).event
    assert (event["subject"], event["attributes"]) == (None, {})
    with pytest.raises(Undecodable, match="has no id"):
        read(json.dumps({**document, "id": None}).encode(), structured)


@pytest.mark.parametrize("field", ["occurred_at", "received_at"])
def test_a_time_that_nobody_can_write_is_poison(field: str) -> None:
    with pytest.raises(Undecodable, match=f"{field} is 4611686018427387904"):
        read(ours(**{field: 2**62}))


def test_a_name_of_our_own_in_the_table_is_no_fingerprint() -> None:
    with pytest.raises(Undecodable, match="NUL"):
        read(ours(fingerprint="\0headgate"))
    with pytest.raises(Undecodable, match="NUL"):
        read(b"{}", ("headgate-fingerprint", b"\0barrier"))


def test_data_is_as_deep_in_avro_as_it_may_be_elsewhere() -> None:
    assert read(ours(data="[" * 64 + "]" * 64)).content()
    with pytest.raises(Undecodable, match="deeper"):
        read(ours(data="[" * 65 + "]" * 65)).content()
    assert read(ours(data=json.dumps(["[{"] * 100))).content()


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (None, []),
        (b"", []),
        (b"{", []),
        (b"\xff\xfe", []),
        (b'{"a": NaN}', []),
        (b'{"a": 1, "a": 2}', []),
        (b"[" * 65 + b"]" * 65, []),
        (b"\x00\x00\x00", []),
        (b"\x01" + b"x" * 20, [("content-type", b"application/avro")]),
        (b"[]", [("content-type", b"application/cloudevents+json")]),
        (b"{}", [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"s")]),
        (b"{}", [("ce_specversion", b"1.0"), ("ce_id", b"\xff"), ("ce_source", b"s"), ("ce_type", b"t")]),
        (b"{}", [("content-type", b"\xff")]),
        (b"{}", [("headgate-fingerprint", b"x" * 1001)]),
    ],
)
def test_poison_is_named(value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    with pytest.raises(Undecodable) as problem:
        read(value, *headers)
    assert len(str(problem.value)) > 10


def test_a_foreign_record_beyond_a_mebibyte_is_too_large() -> None:
    assert read(b'"' + b"x" * (1_048_576 - 2) + b'"').foreign
    with pytest.raises(TooLarge):
        read(b'"' + b"x" * (1_048_576 - 1) + b'"')


def test_a_cloud_event_that_the_runner_would_not_take_is_too_large_at_once() -> None:
    structured = ("content-type", b"application/cloudevents+json")
    head = b'{"id": "1", "source": "s", "type": "t", "data": '
    # Written out as everybody writes it, a number may be four times as long.
    with pytest.raises(TooLarge, match="written out"):
        read(head + b"[" + b",".join([b"9e15"] * 99_000) + b"]}", structured)
    with pytest.raises(TooLarge, match="attributes have"):
        read(head + b'1, "tenant": "' + b"x" * 49_152 + b'"}', structured)
    assert read(
        head + b'"' + b"x" * 1_000_000 + b'", "tenant": "' + b"x" * 40_000 + b'"}', structured
    ).foreign


header_names = st.sampled_from(
    [
        "content-type",
        "ce_specversion",
        "ce_id",
        "ce_source",
        "ce_type",
        "headgate-fingerprint",
        "headgate-origin",
        "x",
    ]
)
header_values = st.binary(max_size=40) | st.sampled_from(
    [b"application/avro", b"application/cloudevents+json", b"application/json", b"1.0", b"a/b/1"]
)


@given(
    st.none()
    | st.binary(max_size=80)
    | st.just(ours())
    | st.binary(max_size=40).map(lambda tail: ours()[:20] + tail),
    st.lists(st.tuples(header_names, header_values), max_size=6),
)
def test_any_bytes_are_an_event_or_poison_and_never_an_accident(
    value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    try:
        incoming = read(value, *headers)
        incoming.content()
    except (Poison, NeedsSchema):
        return
    assert incoming.event["fingerprint"]
    assert incoming.event["id"]
