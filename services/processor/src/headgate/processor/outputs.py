"""What the processor writes: matched events, decisions, dead letters. Encoding only; sending is the stage's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fastavro

from headgate.common import avro, deadletter
from headgate.common.deadletter import Reason
from headgate.common.headers import AVRO, Headers, child_traceparent, new_traceparent, rfc3339, text
from headgate.processor.decide import Verdict
from headgate.processor.records import Incoming

_KEPT_LETTER_HEADERS = 64
_EVENT_HEADERS = frozenset(
    {"content-type", "ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "ce_subject", "traceparent",
     "tracestate", deadletter.REPLAY_OF, deadletter.ATTEMPT}
)  # fmt: skip


class Encoder:
    """Avro bytes with the ids of one registry. Call `at` once a batch: what it caused happened then."""

    def __init__(self, matched_id: int, decision_id: int) -> None:
        whole = avro.schema("MatchedEvent")
        self._decision = avro.schema("Decision")
        self._decision_frame = avro.frame(decision_id)
        self._matched_frame = avro.frame(matched_id)
        self._matched_head = _head_of(whole)
        self._event = avro.schema("RawEvent")
        self._micros = 0
        self._time = b""

    def at(self, micros: int) -> None:
        self._micros = micros
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
        out = io.BytesIO()
        out.write(self._decision_frame)
        topic, partition, offset = place
        fastavro.schemaless_writer(
            out,
            self._decision,
            {
                "event_id": event["id"],
                "fingerprint": event["fingerprint"],
                "source": event["source"],
                "type": event["type"],
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "decided_at": self._micros,
                "reason": reason,
                "verdicts": [
                    {
                        "trigger": verdict.trigger.name,
                        "trigger_uid": verdict.trigger.uid,
                        "trigger_revision": verdict.trigger.revision,
                        "outcome": verdict.outcome,
                        "reason": verdict.reason,
                        "run_id": verdict.run_id,
                    }
                    for verdict in verdicts
                ],
            },
        )
        return out.getvalue()

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
