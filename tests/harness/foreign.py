"""Records as other programs write them: plain JSON, CloudEvents in both modes, Avro of our schema, and poison."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
from tests.harness.plan import Door, Planned, Poison

SCHEMA = fastavro.parse_schema(
    json.loads((Path(__file__).parents[2] / "schemas" / "RawEvent.avsc").read_text("utf-8"))
)
SOURCE = "billing/chaos"
TYPE = "invoice.paid"


@dataclass(frozen=True)
class Foreign:
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    key: bytes | None = None


def framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def avro_body(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, record)
    return out.getvalue()


def raw_event(mark: str, data: dict[str, Any], source: str = SOURCE) -> dict[str, Any]:
    """A RawEvent that another program wrote with our schema."""
    now = int(time.time() * 1_000_000)
    return {
        "id": f"other-{mark}",
        "fingerprint": f"events/{source}:{mark}",
        "source": source,
        "provider": "events",
        "type": TYPE,
        "subject": None,
        "occurred_at": now,
        "received_at": now,
        "data": json.dumps(data),
        "attributes": {},
    }


def structured(mark: str, data: dict[str, Any]) -> Foreign:
    """A CloudEvent with everything in its value."""
    event = {"specversion": "1.0", "id": mark, "source": SOURCE, "type": TYPE, "data": data}
    return Foreign(
        json.dumps(event).encode(), [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    )


def binary(mark: str, data: dict[str, Any]) -> Foreign:
    """A CloudEvent with its attributes in headers."""
    own = {"ce_specversion": "1.0", "ce_id": mark, "ce_source": SOURCE, "ce_type": TYPE}
    headers = [(name, value.encode()) for name, value in own.items()]
    return Foreign(json.dumps(data).encode(), [*headers, ("content-type", b"application/json")])


def plain(data: dict[str, Any]) -> Foreign:
    """JSON, and a header that says so."""
    return Foreign(json.dumps(data).encode(), [("content-type", b"application/json")])


def foreign_record(event: Planned, mark: str, data: dict[str, Any], avro_id: int) -> Foreign:
    """What this event looks like on the raw topic."""
    if event.poison is Poison.BAD_MAGIC:
        return Foreign(b"\x07nothing known " + mark.encode())
    if event.door is Door.STRUCTURED:
        return structured(mark, data)
    if event.door is Door.BINARY:
        return binary(mark, data)
    if event.door is Door.AVRO:
        return Foreign(framed(avro_id, avro_body(raw_event(mark, data))))
    return plain(data)


def foreign_fingerprint(event: Planned, mark: str, data: dict[str, Any]) -> str:
    """CloudEvents name themselves by source and id; plain JSON is what it says."""
    if event.door is Door.JSON:
        return "events/json:" + hashlib.sha256(plain(data).value or b"").hexdigest()
    return f"events/{SOURCE}:{mark}"
