"""What the processor writes: matched events, decisions, dead letters. Encoding only; sending is the stage's.

Avro by hand where there is a record for each event: a third of what fastavro takes. Tests hold it to fastavro
and to the schemas.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fastavro

from headgate.common import avro, binary, deadletter
from headgate.common.deadletter import Reason
from headgate.common.headers import AVRO, Headers, child_traceparent, new_traceparent, rfc3339, text
from headgate.common.rekeying import Original
from headgate.common.topics import MIB
from headgate.processor.decide import Verdict
from headgate.processor.records import MAX_BESIDE_BYTES, Incoming
from headgate.processor.triggers import Listener

_KEPT_LETTER_HEADERS = 64
_KEPT_LETTER_BYTES = 4 * MIB
"""Of a value. Compression lets producers write far more than the topic's limit, and the letter must be stored."""
_EVENT_HEADERS = frozenset(
    {"content-type", "ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "ce_subject", "traceparent",
     "tracestate", deadletter.REPLAY_OF, deadletter.ATTEMPT}
)  # fmt: skip

_CONTENT_TYPE = ("content-type", AVRO)
_SPECVERSION = ("ce_specversion", b"1.0")
_DECISION_SOURCE = ("ce_source", b"/headgate/processor")
_DECISION_TYPE = ("ce_type", b"headgate.decision")

_REMEMBERED = 2_000
_OUTCOMES = {
    name: bytes((number << 1,))
    for number, name in enumerate(("unknown", "started", "filtered", "duplicate", "off", "error"))
}
"""In the order of the schema's enum."""


class Encoder:
    """Avro bytes with the ids of one registry. Call `at` once a batch: what it caused happened then."""

    def __init__(self, matched_id: int, decision_id: int) -> None:
        _check_matched(avro.schema("MatchedEvent"))
        self._decision_frame = avro.frame(decision_id)
        self._matched_frame = avro.frame(matched_id)
        self._event = avro.schema("RawEvent")
        self._heads: dict[tuple[str, int], bytes] = {}
        self._texts = binary.Texts()
        self.at(0)

    def at(self, micros: int) -> None:
        self._long_micros = binary.long(micros)
        self._time = ("ce_time", rfc3339(micros).encode())

    def matched(self, incoming: Incoming, verdict: Verdict) -> bytes:
        """The event's bytes are copied as they came; only those of other schemas are encoded anew."""
        body = incoming.body
        if body is None:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._event, incoming.event)
            body = out.getvalue()
        run_id, head = binary.text(verdict.run_id or ""), self._trigger(verdict.trigger)
        return b"".join((self._matched_frame, run_id, head, self._long_micros, body))

    def decision(
        self, event: dict[str, Any], place: tuple[str, int, int], verdicts: Sequence[Verdict], reason: str
    ) -> bytes:
        topic, partition, offset = place
        texts = self._texts
        parts = [
            self._decision_frame,
            binary.text(event["id"]),
            binary.text(event["fingerprint"]),
            texts[event["source"]],
            texts[event["type"]],
            texts[topic],
            binary.long(partition),
            binary.long(offset),
            self._long_micros,
            texts[reason],
        ]
        if verdicts:
            parts.append(binary.long(len(verdicts)))
            for trigger, outcome, why, run_id, _ in verdicts:
                parts += (self._trigger(trigger), _OUTCOMES[outcome], texts[why])
                parts.append(b"\x00" if run_id is None else b"\x02" + binary.text(run_id))
        parts.append(b"\x00")
        return b"".join(parts)

    def _trigger(self, trigger: Listener) -> bytes:
        """A trigger's name, uid and revision: so it stands in each of its verdicts and matched events."""
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
            _CONTENT_TYPE,
            _SPECVERSION,
            ("ce_id", event["id"].encode()),
            ("ce_source", (event["source"] or "/json").encode()),
            ("ce_type", (event["type"] or "json").encode()),
            ("ce_time", rfc3339(event["occurred_at"]).encode()),
            ("traceparent", child_traceparent(text(original, "traceparent")).encode()),
        ]
        headers += [h for h in original if h[0] in (deadletter.REPLAY_OF, deadletter.ATTEMPT)]
        return headers

    def decision_headers(self, event_id: str, original: Sequence[tuple[str, bytes]]) -> Headers:
        for header in original:
            if header[0] == "traceparent" and header[1]:
                trace = header
                break
        else:
            trace = ("traceparent", new_traceparent().encode())
        ours = ("ce_id", event_id.encode())
        return [_CONTENT_TYPE, _SPECVERSION, ours, _DECISION_SOURCE, _DECISION_TYPE, self._time, trace]


def letter(
    reason: Reason, value: bytes | None, original: Original, micros: int
) -> tuple[bytes | None, bytes | None, Headers]:
    """A dead letter's value, key and headers. What no topic would take is cut, and that is said."""
    cut = []
    kept: Headers = []
    beside = 0
    for header in original.headers:
        beside += len(header[0]) + len(header[1] or b"")
        if len(kept) < _KEPT_LETTER_HEADERS and beside <= MAX_BESIDE_BYTES:
            kept.append(header)
    if len(kept) < len(original.headers):
        cut.append(f"{len(original.headers) - len(kept)} headers left out")
    key = original.key
    if key is not None and len(key) > MAX_BESIDE_BYTES:
        cut.append(f"key cut from {len(key)} bytes")
        key = key[:MAX_BESIDE_BYTES]
    if value is not None and len(value) > _KEPT_LETTER_BYTES:
        cut.append(f"value cut from {len(value)} bytes, whose SHA-256 is {hashlib.sha256(value).hexdigest()}")
        value = value[:_KEPT_LETTER_BYTES]
    if cut:
        reason = replace(reason, message=f"{reason.message} ({'; '.join(cut)})")
    failed_at = datetime.fromtimestamp(micros / 1_000_000, UTC)
    return value, key, deadletter.headers(reason, kept, failed_at)


def _check_matched(whole: Any) -> None:
    """What `matched` writes by hand, and behind it RawEvent's very fields, whose bytes are copied."""
    *head, event = whole["fields"]
    names = ["run_id", "trigger", "trigger_uid", "trigger_revision", "matched_at"]
    raw = avro.schema("RawEvent")["fields"]
    if [field["name"] for field in head] != names or _shape(event["type"]["fields"]) != _shape(raw):
        raise AssertionError("schemas/MatchedEvent.avsc must end with the very fields of RawEvent.avsc")


def _shape(fields: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(field["name"], field["type"]) for field in fields]
