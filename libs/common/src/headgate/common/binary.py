"""Avro by hand, for the records of which there is one for each event: a third of what fastavro takes.

What is written here is held to fastavro and to the schemas by tests; everything else uses fastavro.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.common import avro

_BYTES = [bytes((number,)) for number in range(128)]
_REMEMBERED = 2_000
_SHORT = 200


def long(number: int) -> bytes:
    """Avro's int and long: zig-zag, then 7 bits a byte."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    if left < 0x80:
        return _BYTES[left]
    if left < 0x4000:
        return bytes((left & 0x7F | 0x80, left >> 7))
    if left < 0x200000:
        return bytes((left & 0x7F | 0x80, left >> 7 & 0x7F | 0x80, left >> 14))
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def text(text: str) -> bytes:
    raw = text.encode()
    size = len(raw)
    if size < 64:
        return _BYTES[size << 1] + raw
    if size < 8192:
        return bytes((size << 1 & 0x7F | 0x80, size >> 6)) + raw
    return long(size) + raw


class Texts(dict[str, bytes]):
    """Texts that come again and again, as Avro has them: `texts[text]`. Few and short ones are remembered."""

    def __missing__(self, word: str) -> bytes:
        raw = text(word)
        if len(raw) <= _SHORT:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[word] = raw
        return raw


def raw_event(schema_id: int) -> Callable[[Mapping[str, Any]], bytes]:
    """An encoder of RawEvents, framing included."""
    frame = avro.frame(schema_id)
    often = Texts()
    """Of what a service says again and again: its sources, providers, and names of attributes."""

    def encode(event: Mapping[str, Any]) -> bytes:
        subject, attributes = event["subject"], event["attributes"]
        occurred, received = event["occurred_at"], event["received_at"]
        moment = long(received)
        parts = [
            frame,
            text(event["id"]),
            text(event["fingerprint"]),
            often[event["source"]],
            often[event["provider"]],
            text(event["type"]),
            b"\x00" if subject is None else b"\x02" + text(subject),
            moment if occurred == received else long(occurred),
            moment,
            text(event["data"]),
        ]
        if attributes:
            parts.append(long(len(attributes)))
            for name, value in attributes.items():
                parts.append(often[name])
                parts.append(text(value))
        parts.append(b"\x00")
        return b"".join(parts)

    return encode
