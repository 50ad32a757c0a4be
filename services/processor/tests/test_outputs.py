"""What is written by hand is what fastavro and the schema say."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common import avro, deadletter, fingerprints
from headgate.common.deadletter import Reason
from headgate.common.model import Stored, Trigger
from headgate.common.rekeying import Original
from headgate.common.topics import Topics
from headgate.processor.decide import Verdict
from headgate.processor.outputs import Encoder, letter
from headgate.processor.records import Incoming, Reader
from headgate.processor.triggers import Listener

SPEC = {
    "metadata": {"name": "t"},
    "sources": [{"provider": "github-webhook", "name": "gh"}],
    "action": {"local": {}},
}
TRIGGER = Listener.of(
    Stored("t", fingerprints.uid("p", "trigger", "t"), 300, 0, "", Trigger.model_validate(SPEC))
)
longs = st.integers(-(2**63), 2**63 - 1)
some_verdicts = st.lists(
    st.builds(
        Verdict,
        trigger=st.just(TRIGGER),
        outcome=st.sampled_from(["started", "filtered", "duplicate", "off", "error"]),
        reason=st.text(max_size=300),
        run_id=st.none() | st.text(max_size=40),
    ),
    max_size=3,
)


@given(
    st.fixed_dictionaries({name: st.text(max_size=200) for name in ("id", "fingerprint", "source", "type")}),
    st.integers(0, 2**31 - 1),
    longs,
    longs.filter(lambda micros: abs(micros) < 2**55),
    some_verdicts,
    st.text(max_size=100),
)
def test_a_decision_reads_back_as_it_was_meant(
    event: dict[str, Any], partition: int, offset: int, micros: int, verdicts: list[Verdict], reason: str
) -> None:
    encoder = Encoder(1, 2)
    encoder.at(abs(micros))
    value = encoder.decision(event, ("raw", partition, offset), verdicts, reason)
    expected = {
        "event_id": event["id"], "fingerprint": event["fingerprint"], "source": event["source"],
        "type": event["type"], "topic": "raw", "partition": partition, "offset": offset,
        "decided_at": abs(micros), "reason": reason,
        "verdicts": [
            {"trigger": "t", "trigger_uid": TRIGGER.uid, "trigger_revision": 300, "outcome": one.outcome,
             "reason": one.reason, "run_id": one.run_id}
            for one in verdicts
        ],
    }  # fmt: skip
    assert value == avro.encode(avro.schema("Decision"), 2, expected)


@pytest.mark.parametrize("copied", [True, False])
def test_a_matched_event_is_the_same_copied_or_encoded(copied: bool) -> None:
    event = {
        "id": "e1", "fingerprint": "github/gh:1", "source": "gh", "provider": "github-webhook", "type": "push",
        "subject": "ü", "occurred_at": 5, "received_at": 6, "data": '{"n": 1}', "attributes": {"a": "b"},
    }  # fmt: skip
    value = avro.encode(avro.schema("RawEvent"), 7, event)
    incoming = Reader(7).read(value, (), "raw", 0, 0, 0)
    assert incoming.body is not None
    if not copied:
        incoming = Incoming(incoming.event, None, False)
    encoder = Encoder(1, 2)
    encoder.at(1234)
    matched = encoder.matched(incoming, Verdict(TRIGGER, "started", "", "run"))
    expected = {
        "run_id": "run", "trigger": "t", "trigger_uid": TRIGGER.uid, "trigger_revision": 300, "matched_at": 1234,
        "event": event,
    }  # fmt: skip
    assert matched == avro.encode(avro.schema("MatchedEvent"), 1, expected)


def test_a_dead_letter_is_what_was_sent() -> None:
    original = Original("raw", 0, 0, b"\xff", [("a", b"\x00"), ("a", b"")])
    value, key, headers = letter(Reason("processor", "undecodable", "why"), b"v", original, 0)
    assert (value, key, headers[:2]) == (b"v", b"\xff", original.headers)
    assert deadletter.read(headers).message == "why"


def test_a_dead_letter_fits_on_its_topic_whatever_was_sent() -> None:
    """A compressed record may be a thousand times what its topic takes."""
    limit = int(Topics().get(Topics().dlq).config["max.message.bytes"])
    many = [("x", b"y" * 100_000)] * 30
    original = Original("raw", 0, 0, b"k" * 9_000_000, [*many, ("", b"z" * 9_000_000)])
    value, key, headers = letter(Reason("processor", "too-large", "why"), b"v" * 9_000_000, original, 0)
    size = len(value or b"") + len(key or b"") + sum(len(name) + len(text) for name, text in headers)
    assert size < limit - 64 * 1024
    said = deadletter.read(headers).message
    assert said.startswith(
        "why (26 headers left out; key cut from 9000000 bytes; value cut from 9000000 bytes"
    )
    assert hashlib.sha256(b"v" * 9_000_000).hexdigest() in said
