"""What the processor writes: matched events, decisions, dead letters. Encoding only; sending is the stage's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fastavro

from headgate.common import avro, binary, deadletter
from headgate.common.deadletter import Reason
from headgate.common.headers import AVRO, Headers, child_traceparent, new_traceparent, rfc3339, text
from headgate.processor.decide import Verdict
from headgate.processor.records import Incoming
from headgate.processor.triggers import Listener

_KEPT_LETTER_HEADERS = 64
_EVENT_HEADERS = frozenset(
    {"content-type", "ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "ce_subject", "traceparent",
     "tracestate", deadletter.REPLAY_OF, deadletter.ATTEMPT}
)  # fmt: skip

_REMEMBERED = 10_000
_OUTCOMES = {
    name: bytes((number << 1,))
    for number, name in enumerate(("unknown", "started", "filtered", "duplicate", "off", "error"))
}
"""In the order of the schema's enum."""


class Encoder:
    """Avro bytes with the ids of one registry. Call `at` once a batch: what it caused happened then."""

    def __init__(self, matched_id: int, decision_id: int) -> None:
        whole = avro.schema("MatchedEvent")
        self._decision_frame = avro.frame(decision_id)
        self._matched_frame = avro.frame(matched_id)
        self._matched_head = _head_of(whole)
        self._event = avro.schema("RawEvent")
        self._heads: dict[tuple[str, int], bytes] = {}
        self.at(0)

    def at(self, micros: int) -> None:
        self._micros = micros
        self._long_micros = binary.long(micros)
        self._time = rfc3339(micros).encode()

    def matched(self, incoming: Incoming, verdict: Verdict) -> bytes:
        out = io.BytesIO()
        out.write(self._matched_frame)
        trigger = verdict.trigger
        fastavro.schemaless_writer(
            out,
            self._matched_head,
            {
                "run_id": verdict.run_id,
                "trigger": trigger.name,
                "trigger_uid": trigger.uid,
                "trigger_revision": trigger.revision,
                "matched_at": self._micros,
            },
        )
        if incoming.body is not None:
            out.write(incoming.body)
        else:
            fastavro.schemaless_writer(out, self._event, incoming.event)
        return out.getvalue()

    def decision(
        self, event: dict[str, Any], place: tuple[str, int, int], verdicts: Sequence[Verdict], reason: str
    ) -> bytes:
        """Avro by hand, since there is one for each event: a third of what fastavro takes. A test holds it
        to fastavro and to the schema."""
        topic, partition, offset = place
        parts = [
            self._decision_frame,
            binary.text(event["id"]),
            binary.text(event["fingerprint"]),
            binary.text(event["source"]),
            binary.text(event["type"]),
            binary.text(topic),
            binary.long(partition),
            binary.long(offset),
            self._long_micros,
            binary.text(reason),
        ]
        if verdicts:
            parts.append(binary.long(len(verdicts)))
            for trigger, outcome, why, run_id, _ in verdicts:
                parts += (self._verdict_head(trigger), _OUTCOMES[outcome], binary.text(why))
                parts.append(b"\x00" if run_id is None else b"\x02" + binary.text(run_id))
        parts.append(b"\x00")
        return b"".join(parts)

    def _verdict_head(self, trigger: Listener) -> bytes:
        """A trigger's name, uid and revision, the same for each of its verdicts."""
        key = trigger.uid, trigger.revision
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _REMEMBERED:
                self._heads.clear()
            head = binary.text(trigger.name) + binary.text(trigger.uid) + binary.long(trigger.revision)
            self._heads[key] = head
        return head

    def event_headers(self, incoming: Incoming, original: Sequence[tuple[str, bytes]]) -> Headers:
        """A matched record carries its event's CloudEvents attributes and trace; foreign ones get them."""
        if not incoming.foreign:
            return [header for header in original if header[0] in _EVENT_HEADERS]
        event = incoming.event
        headers = [
            ("content-type", AVRO),
            ("ce_specversion", b"1.0"),
            ("ce_id", event["id"].encode()),
            ("ce_source", (event["source"] or "/json").encode()),
            ("ce_type", (event["type"] or "json").encode()),
            ("ce_time", rfc3339(event["occurred_at"]).encode()),
            ("traceparent", child_traceparent(text(original, "traceparent")).encode()),
        ]
        headers += [h for h in original if h[0] in (deadletter.REPLAY_OF, deadletter.ATTEMPT)]
        return headers

    def decision_headers(self, event_id: str, original: Sequence[tuple[str, bytes]]) -> Headers:
        trace = next((value for name, value in original if name == "traceparent"), None)
        return [
            ("content-type", AVRO),
            ("ce_specversion", b"1.0"),
            ("ce_id", event_id.encode()),
            ("ce_source", b"/headgate/processor"),
            ("ce_type", b"headgate.decision"),
            ("ce_time", self._time),
            ("traceparent", trace or new_traceparent().encode()),
        ]


def letter_headers(reason: Reason, original: Sequence[tuple[str, bytes]], micros: int) -> Headers:
    """A dead letter's headers; a record that came with hundreds keeps the first of them."""
    kept = list(original)
    if len(kept) > _KEPT_LETTER_HEADERS:
        reason = replace(
            reason, message=f"{reason.message} ({len(kept) - _KEPT_LETTER_HEADERS} headers left out)"
        )
        kept = kept[:_KEPT_LETTER_HEADERS]
    return deadletter.headers(reason, kept, datetime.fromtimestamp(micros / 1_000_000, UTC))


def _head_of(whole: Any) -> Any:
    """MatchedEvent without its event, which comes last and has RawEvent's very fields: encoded RawEvents are
    then copied behind it instead of being encoded again."""
    *head, event = whole["fields"]
    raw = avro.schema("RawEvent")["fields"]
    if event["name"] != "event" or _shape(event["type"]["fields"]) != _shape(raw):
        raise AssertionError("schemas/MatchedEvent.avsc must end with the very fields of RawEvent.avsc")
    return fastavro.parse_schema({"type": "record", "name": "headgate.MatchedHead", "fields": head})


def _shape(fields: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(field["name"], field["type"]) for field in fields]
