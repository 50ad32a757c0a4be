"""Raw bytes into an event, whatever producer wrote them: our Avro, CloudEvents or plain JSON.

Poison raised here is about these bytes alone. What the registry has to be asked for first is raised as
`NeedsSchema`: the caller fetches it (waiting as long as the registry is away) and asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from headgate.common import avro, fingerprints, rekeying, strict_json
from headgate.common.errors import HeadgateError, TooLarge, Undecodable
from headgate.common.headers import is_moment
from headgate.common.model.kinds import EVENTS
from headgate.common.topics import MAX_RECORD_BYTES
from headgate.processor.batching.salvage import UnreadableHeaders

FINGERPRINT = "headgate-fingerprint"
_STRUCTURED = "application/cloudevents"
_MAX_NAME = 1_000
_MAX_ATTRIBUTES_BYTES = 48 * 1024
"""Of a CloudEvent: with data of the largest size, the runner still takes the event."""
MAX_BESIDE_BYTES = 512 * 1024
"""Of key and headers together: with a value of the largest size they still fit on every topic of ours."""
_NAMES = ("id", "fingerprint", "source")
_MOMENTS = ("occurred_at", "received_at")
_ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")

Headers = Sequence[tuple[str, bytes]]


class NeedsSchema(HeadgateError):
    """The writer's schema of this id must be fetched from the registry before the record can be read."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema {schema_id} is not known yet")
        self.schema_id = schema_id


@dataclass(slots=True)
class Incoming:
    """A record that could be read."""

    event: dict[str, Any]
    """The fields of RawEvent."""
    body: bytes | None
    """The Avro body as it stands, when its writer used our very schema: copied, not encoded again."""
    foreign: bool
    data: Any = None
    parsed: bool = False

    def content(self) -> Any:
        """`data` parsed; Undecodable when it is no JSON, or too deep for what comes after us."""
        if not self.parsed:
            text = self.event["data"]
            try:
                self.data = orjson.loads(text)
                if text.count("[") + text.count("{") > strict_json.DEFAULT_LIMITS.depth:
                    strict_json.measure(self.data)
            except orjson.JSONDecodeError as problem:
                raise Undecodable(f"the event's data is not JSON: {problem}") from problem
            except strict_json.NotStrictJson as problem:
                raise Undecodable(f"the event's data is not JSON that we take: {problem}") from problem
            self.parsed = True
        return self.data


class Reader:
    """Knows the writers' schemas it has met."""

    def __init__(self, own_schema_id: int) -> None:
        self._own_id = own_schema_id
        self._own = avro.schema("RawEvent")
        self._writers: dict[int, avro.Schema] = {}

    def learn(self, schema_id: int, schema: avro.Schema) -> None:
        self._writers[schema_id] = schema

    def read(
        self, value: bytes | None, headers: Headers, topic: str, partition: int, offset: int, millis: int
    ) -> Incoming:
        """The event in a record. Poison: Undecodable or TooLarge. NeedsSchema: fetch, and read again."""
        if isinstance(headers, UnreadableHeaders):
            raise Undecodable("the name of a header is not UTF-8; the headers of this record are left out")
        if not value:
            kind = "a tombstone" if value is None else "empty"
            raise Undecodable(f"the record's value is {kind}; the raw topic takes events")
        content_type = _text(headers, "content-type").lower()
        if content_type.startswith("application/avro") or (value[0] == avro.MAGIC and not content_type):
            return self._avro(value)
        if len(value) > MAX_RECORD_BYTES:
            raise TooLarge(f"the record has {len(value)} bytes; the limit is {MAX_RECORD_BYTES}")
        if value[0] == avro.MAGIC:
            return self._avro(value)
        if content_type.startswith(_STRUCTURED):
            event = _structured(value)
        else:
            event = _binary(value, headers) if _has_attributes(headers) else _plain(value)
        data = event.pop("_data")
        given = _text(headers, FINGERPRINT)
        if len(given) > _MAX_NAME:
            raise Undecodable(f"the header {FINGERPRINT} is longer than {_MAX_NAME} characters")
        if given:
            event["fingerprint"] = _checked_fingerprint(given)
        event["id"] = rekeying.foreign_event_id(headers, topic, partition, offset)
        event["received_at"] = millis * 1000
        event.setdefault("occurred_at", millis * 1000)
        return Incoming(event, None, True, data, True)

    def _avro(self, value: bytes) -> Incoming:
        schema_id = avro.schema_id_of(value)
        if schema_id == self._own_id:
            return Incoming(_checked(avro.decode(self._own, value)), value[avro.HEADER_BYTES :], False)
        writer = self._writers.get(schema_id)
        if writer is None:
            raise NeedsSchema(schema_id)
        return Incoming(_checked(avro.decode(writer, value, self._own)), None, False)


def refuse_bulk(key: bytes | None, headers: Headers) -> None:
    """TooLarge when what comes beside the value is: a compressed record may hold more than its topic's limit."""
    size = len(key or b"")
    for name, value in headers:
        size += len(name) + len(value or b"")
    if size > MAX_BESIDE_BYTES:
        raise TooLarge(f"key and headers have {size} bytes; the limit is {MAX_BESIDE_BYTES}")


def _checked(event: dict[str, Any]) -> dict[str, Any]:
    if len(event["data"]) > MAX_RECORD_BYTES:
        raise TooLarge(f"the event's data has more than {MAX_RECORD_BYTES} bytes")
    for name in _NAMES:
        text = event[name]
        if not text:
            raise Undecodable(f"the event has no {name}")
        if len(text) > _MAX_NAME:
            raise Undecodable(f"the event's {name} is longer than {_MAX_NAME} characters")
    for name in _MOMENTS:
        if not is_moment(event[name]):
            raise Undecodable(
                f"the event's {name} is {event[name]} µs since 1970, outside the years 1 to 9999"
            )
    _checked_fingerprint(event["fingerprint"])
    return event


def _checked_fingerprint(text: str) -> str:
    """Names that begin with a NUL are our own, in the table and in its changelog."""
    if text[0] == "\0":
        raise Undecodable("the event's fingerprint begins with a NUL")
    return text


def _structured(value: bytes) -> dict[str, Any]:
    """A CloudEvent as one JSON document."""
    document = _json(value)
    if not isinstance(document, dict):
        raise Undecodable("a structured CloudEvent is a JSON object")
    # An attribute that is null is one that is not there: so says the JSON format of CloudEvents.
    document = {name: value for name, value in document.items() if value is not None}
    if "data_base64" in document:
        raise Undecodable("a CloudEvent with binary data cannot be conditioned on; send JSON data")
    attributes = {
        name: text if isinstance(text, str) else orjson.dumps(text).decode()
        for name, text in document.items()
        if name != "data"
    }
    return _cloud_event(attributes, document.get("data"))


def _binary(value: bytes, headers: Headers) -> dict[str, Any]:
    """A CloudEvent whose attributes are headers and whose data is the value."""
    attributes = {}
    for name, text in headers:
        if name.lower().startswith("ce_"):
            attributes[name[3:].lower()] = _decoded(name, text)
    return _cloud_event(attributes, _json(value), value)


def _plain(value: bytes) -> dict[str, Any]:
    """JSON that says nothing about itself."""
    data = _json(value)
    return _event("", "", fingerprints.of_plain_json(value), value, data)


def _cloud_event(attributes: dict[str, str], data: Any, value: bytes | None = None) -> dict[str, Any]:
    for name in ("id", "source", "type"):
        text = attributes.get(name)
        if not text:
            raise Undecodable(f"the CloudEvent has no {name}")
        if len(text) > _MAX_NAME:
            raise Undecodable(f"the CloudEvent's {name} is longer than {_MAX_NAME} characters")
    source, type = attributes["source"], attributes["type"]
    fingerprint = fingerprints.of_cloud_event(source, attributes["id"])
    value = orjson.dumps(data) if value is None else value
    if len(value) > MAX_RECORD_BYTES:
        raise TooLarge(
            f"the CloudEvent's data, written out, has {len(value)} bytes; the limit is {MAX_RECORD_BYTES}"
        )
    size = sum(len(name.encode()) + len(text.encode()) for name, text in attributes.items())
    if size > _MAX_ATTRIBUTES_BYTES:
        raise TooLarge(f"the CloudEvent's attributes have {size} bytes; the limit is {_MAX_ATTRIBUTES_BYTES}")
    event = _event(source, type, fingerprint, value, data)
    event["subject"] = attributes.get("subject")
    event["attributes"] = {k: v for k, v in attributes.items() if k not in _ATTRIBUTES}
    moment = _micros(attributes.get("time"))
    if moment is not None:
        event["occurred_at"] = moment
    return event


def _event(source: str, type: str, fingerprint: str, value: bytes, data: Any) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint,
        "source": source,
        "provider": EVENTS,
        "type": type,
        "subject": None,
        "data": value.decode(),
        "attributes": {},
        "_data": data,
    }


def _json(value: bytes) -> Any:
    try:
        return strict_json.loads(value)
    except strict_json.NotStrictJson as problem:
        raise Undecodable(f"the value is neither Avro nor JSON that we take: {problem}") from problem


def _micros(text: str | None) -> int | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    micros = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    return micros if is_moment(micros) else None


def _has_attributes(headers: Headers) -> bool:
    return any(name.lower() == "ce_specversion" for name, _ in headers)


def _decoded(name: str, text: bytes | None) -> str:
    try:
        return (text or b"").decode()
    except UnicodeDecodeError as problem:
        raise Undecodable(f"the header {name} is not UTF-8") from problem


def _text(headers: Headers, name: str) -> str:
    for key, value in headers:
        if key.lower() == name:
            return _decoded(key, value)
    return ""
