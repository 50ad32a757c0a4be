"""Our records as bytes: Avro behind the Confluent framing (0x00, 4-byte schema id, body).

fastavro is called directly on parsed schemas: no registry, no I/O, no lock on the hot path. Which id
belongs to which schema is the registry module's business; here ids are just numbers.
"""

from __future__ import annotations

import io
import json
import struct
from functools import cache
from importlib import resources
from typing import Any

import fastavro

from headgate.common.errors import TooLarge, Undecodable
from headgate.common.topics import MAX_RECORD_BYTES

MAGIC = 0
_HEADER = struct.Struct(">bI")
HEADER_BYTES = _HEADER.size

ENVELOPE_BYTES = 64 * 1024
"""What our fields may add to a payload of the largest size."""

MAX_FRAMED_BYTES = MAX_RECORD_BYTES + ENVELOPE_BYTES

Schema = Any
"""What fastavro.parse_schema returns."""


@cache
def schema_text(name: str) -> str:
    """The text of `schemas/<name>.avsc`, in the canonical white space we register."""
    path = resources.files("headgate.common") / "avsc" / f"{name}.avsc"
    return json.dumps(json.loads(path.read_text("utf-8")), separators=(",", ":"))


@cache
def schema(name: str) -> Schema:
    """Our own schema, parsed."""
    return parse(schema_text(name))


def parse(text: str) -> Schema:
    """Parse a writer's schema and refuse shapes that let a few bytes become gigabytes."""
    parsed = fastavro.parse_schema(_without_logical_types(json.loads(text)))
    _refuse_amplifiers(parsed)
    return parsed


def _without_logical_types(node: Any) -> Any:
    """Moments stay microseconds since 1970 in our code: no datetime is built for a field nobody reads."""
    if isinstance(node, list):
        return [_without_logical_types(one) for one in node]
    if isinstance(node, dict):
        return {key: _without_logical_types(value) for key, value in node.items() if key != "logicalType"}
    return node


def _refuse_amplifiers(node: Any, inside: tuple[str, ...] = ()) -> None:
    """An array or map of nulls costs no bytes an item: six bytes can announce twenty million. A type that has
    itself in it goes as deep as its bytes say, and the decoder's stack does not.

    Names are whole ones here, as fastavro parsed them; `inside` are those of the types around this one.
    """
    if isinstance(node, list):
        for branch in node:
            _refuse_amplifiers(branch, inside)
        return
    if isinstance(node, str) and node in inside:
        raise Undecodable(f"the writer's schema has a type with itself in it ({node}); refused")
    if not isinstance(node, dict):
        return
    if "name" in node:
        # Another part of the schema may have it as an item by its name alone.
        if _is_empty(node):
            raise Undecodable(f"the writer's schema has a type that takes no bytes ({node['name']}); refused")
        inside = (*inside, node["name"])
    if node.get("type") in ("array", "map"):
        items = node.get("items", node.get("values"))
        if _is_empty(items):
            raise Undecodable("the writer's schema has an array or map whose items take no bytes; refused")
        _refuse_amplifiers(items, inside)
    if isinstance(node.get("type"), (dict, list)):
        _refuse_amplifiers(node["type"], inside)
    for one in node.get("fields", ()):
        _refuse_amplifiers(one.get("type"), inside)


def _is_empty(node: Any) -> bool:
    """Whether a value of this type may be encoded in no bytes at all."""
    if isinstance(node, dict):
        kind = node.get("type")
        if kind == "record":
            return all(_is_empty(one.get("type")) for one in node.get("fields", ()))
        if kind == "fixed":
            return bool(node.get("size") == 0)
        return _is_empty(kind)
    return bool(node == "null")


def frame(schema_id: int) -> bytes:
    """The five bytes in front of every record of this schema."""
    return _HEADER.pack(MAGIC, schema_id)


def encode(schema: Schema, schema_id: int, record: dict[str, Any]) -> bytes:
    """A record as it travels."""
    out = io.BytesIO()
    out.write(_HEADER.pack(MAGIC, schema_id))
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def schema_id_of(value: bytes) -> int:
    """The schema id in front of a record, or why there is none."""
    if len(value) > MAX_FRAMED_BYTES:
        raise TooLarge(f"the record has {len(value)} bytes; the limit is {MAX_FRAMED_BYTES}")
    if len(value) < HEADER_BYTES:
        raise Undecodable(f"the record has {len(value)} bytes; Avro in the Confluent framing has at least 5")
    magic, schema_id = _HEADER.unpack_from(value)
    if magic != MAGIC:
        raise Undecodable(f"the first byte is {magic:#04x}; the Confluent framing starts with 0x00")
    return int(schema_id)


def decode(writer: Schema, value: bytes, reader: Schema | None = None) -> dict[str, Any]:
    """The record in `value` (framing included), exactly: bytes left over are poison, not padding."""
    stream = io.BytesIO(value)
    stream.seek(HEADER_BYTES)
    try:
        record = fastavro.schemaless_reader(stream, writer, reader)
    except (
        ValueError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
        struct.error,
    ) as problem:
        raise Undecodable(
            f"not a valid record of its schema: {problem or type(problem).__name__}"
        ) from problem
    except (fastavro.read.SchemaResolutionError, AttributeError) as problem:
        raise Undecodable(f"the writer's schema cannot be read as ours: {problem}") from problem
    left = len(value) - stream.tell()
    if left:
        raise Undecodable(f"{left} bytes are left over behind the record")
    if not isinstance(record, dict):
        raise Undecodable("the schema describes no record")
    return record
