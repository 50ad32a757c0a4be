"""Events, decisions and runs as they lie on their topics, decoded for people to read."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.common import fingerprints, rekeying
from headgate.common.errors import Poison
from headgate.common.headers import FIRST_MOMENT, LAST_MOMENT, text
from headgate.common.model.kinds import EVENTS

from .connection import Connection
from .scan import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FINGERPRINT = "headgate-fingerprint"
"""Header by which another producer may name the fingerprint itself."""


def moment(micros: int) -> datetime:
    """Microseconds since 1970 as a time. A stranger may have written any number: the nearest that is one."""
    return _EPOCH + timedelta(microseconds=max(FIRST_MOMENT, min(micros, LAST_MOMENT)))


def time_of(event_id: str) -> int | None:
    """The milliseconds inside a UUIDv7, None for other ids."""
    try:
        parsed = uuid.UUID(event_id)
    except ValueError:
        return None
    return parsed.int >> 80 if parsed.version == 7 else None


@dataclass(frozen=True)
class Found:
    """A record of ours and what it says: a decision, a run, a matched event."""

    record: Record
    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def time(self, name: str) -> datetime:
        return moment(self.values[name])

    def plain(self) -> dict[str, Any]:
        """Its fields, with moments as times."""
        return {
            name: moment(value) if name.endswith("_at") and isinstance(value, int) else value
            for name, value in self.values.items()
        }


@dataclass(frozen=True)
class Event:
    """One sighting on the raw topic. Another producer's record, not ours, has `foreign` set."""

    record: Record
    id: str
    fingerprint: str
    source: str
    provider: str
    type: str
    subject: str | None
    occurred_at: datetime
    received_at: datetime
    data: Any
    attributes: dict[str, str] = field(default_factory=dict)
    foreign: bool = False

    def plain(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "fingerprint": self.fingerprint,
            "source": self.source,
            "provider": self.provider,
            "type": self.type,
            "subject": self.subject,
            "occurred_at": self.occurred_at,
            "received_at": self.received_at,
            "stored_at": moment(self.record.timestamp_ms * 1000),
            "coordinates": self.record.coordinates,
            "attributes": self.attributes,
            "data": self.data,
        }


def event_of(record: Record, connection: Connection) -> Event:
    """A record of the raw topic as an event, whoever wrote it."""
    value = record.value or b""
    if value[:1] == b"\0":
        try:
            return _ours(record, connection.codec.decode("RawEvent", value))
        except Poison:
            pass
    return _foreign(record, value)


def _ours(record: Record, values: dict[str, Any]) -> Event:
    return Event(
        record=record,
        id=values["id"],
        fingerprint=values["fingerprint"],
        source=values["source"],
        provider=values["provider"],
        type=values["type"],
        subject=values["subject"],
        occurred_at=moment(values["occurred_at"]),
        received_at=moment(values["received_at"]),
        data=_json(values["data"]),
        attributes=values["attributes"],
    )


def _foreign(record: Record, value: bytes) -> Event:
    """A record that is not of our schema, read as the processor reads it: for people, so nothing is refused."""
    data = _json(value.decode("utf-8", "backslashreplace"))
    structured = (text(record.headers, "content-type") or "").lower().startswith("application/cloudevents")
    outer: dict[str, Any] = data if structured and isinstance(data, dict) else {}

    def attribute(name: str) -> str:
        return str(outer.get(name) or text(record.headers, f"ce_{name}") or "")

    named = attribute("id") and attribute("source")
    mine = (
        fingerprints.of_cloud_event(attribute("source"), attribute("id"))
        if named
        else fingerprints.of_plain_json(value)
    )
    at = moment(record.timestamp_ms * 1000)
    return Event(
        record=record,
        id=rekeying.foreign_event_id(record.headers, record.topic, record.partition, record.offset),
        fingerprint=text(record.headers, FINGERPRINT) or mine,
        source=attribute("source"),
        provider=EVENTS,
        type=attribute("type"),
        subject=attribute("subject") or None,
        occurred_at=at,
        received_at=at,
        data=outer.get("data", data) if outer else data,
        foreign=True,
    )


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
