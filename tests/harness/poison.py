"""Every kind of record that cannot be handled, as a stranger would write it."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
from tests.harness.foreign import Foreign, avro_body, framed, plain, raw_event

MIB = 1_048_576
BOMB = {
    "type": "record",
    "name": "Bomb",
    "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}],
}


def matrix(mark: str, raw_id: int, bomb_id: int) -> dict[str, Foreign]:
    """One record of each kind; the mark stands in the value, or in the key where there is no value."""
    body = avro_body(raw_event(mark, {"token": mark, "grade": 5}))
    name = mark.encode()
    return {
        "malformed": Foreign(framed(raw_id, b"\xff\xff\xff\xff" + name)),
        "unknown schema id": Foreign(framed(987_654, body)),
        "other magic byte": Foreign(b"\x01" + framed(raw_id, body)[1:]),
        "eight-byte id": Foreign(b"\x00" + raw_id.to_bytes(8, "big") + body),
        "empty": Foreign(b"", key=name),
        "tombstone": Foreign(None, key=name),
        "trailing bytes": Foreign(framed(raw_id, body) + b"\x00"),
        "cut short": Foreign(framed(raw_id, body)[:-1]),
        "null bomb": Foreign(framed(bomb_id, b"\xc0\x84\xaf\x5f\x00\x00"), key=name),
        "oversize": plain({"token": mark, "grade": 5, "padding": "x" * MIB}),
        "header not UTF-8": replace(plain({"token": mark}), headers=[("content-type", b"\xff\xfe")]),
        "not JSON": Foreign(b"{" + name, [("content-type", b"application/json")]),
        "no id": Foreign(
            json.dumps({"specversion": "1.0", "source": "billing/x", "type": mark}).encode(),
            [("content-type", b"application/cloudevents+json")],
        ),
        "grade is a word": plain({"token": mark, "grade": "high"}),
        "refused by the engine": plain({"token": mark, "grade": 5, "refuse": True}),
    }


def register_bomb(url: str, subject: str) -> int:
    """A schema whose arrays cost no bytes, as a stranger could register it."""
    answer = httpx.post(f"{url}/subjects/{subject}/versions", json={"schema": json.dumps(BOMB)}, timeout=10)
    return int(answer.raise_for_status().json()["id"])
