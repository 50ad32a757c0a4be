"""What is written by hand is what fastavro and the schema say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common import avro, fingerprints
from headgate.common.model import Stored, Trigger
from headgate.processor.decide import Verdict
from headgate.processor.outputs import Encoder
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
