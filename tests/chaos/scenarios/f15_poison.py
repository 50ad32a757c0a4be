"""F15: every kind of record that cannot be handled, straight to the raw topic."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
from tests.chaos.scenario import Round, Scenario
from tests.harness.evidence import Expected
from tests.harness.foreign import Foreign, avro_body, framed, plain, raw_event
from tests.harness.plan import token
from tests.harness.senders import Producers

FIRST = 900_000
"""Sequence numbers beyond any plan."""
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


async def disturb(round_: Round) -> None:
    """The whole matrix twice, amid good traffic."""
    pipeline, seed = round_.pipeline, round_.seed
    producers = Producers(
        pipeline.cluster.bootstrap, pipeline.topics.raw, round_.history, pipeline.raw_schema_id
    )
    bomb_id = register_bomb(pipeline.cluster.registry.url, f"{pipeline.prefix}-bomb")
    names = list(matrix("", 0, 0))
    poison = [name for name in names for _ in range(2)]
    expected = []
    for number, name in enumerate(poison, FIRST):
        mark = token(seed, number)
        record = matrix(mark, pipeline.raw_schema_id, bomb_id)[name]
        await producers.produce(None, record)
        expected.append(Expected(mark, "poison", ""))
    round_.extra = replace(
        round_.extra,
        expected=tuple(expected),
        accepted=frozenset(one.token for one in expected),
    )
    round_.figures["poison_kinds"] = len(names)


async def every_letter_says_why(round_: Round) -> None:
    for record in round_.reader.records(round_.pipeline.topics.dlq):
        for header in (
            "__connect.errors.exception.message",
            "headgate.error",
            "headgate.stage",
            "headgate.next",
        ):
            if not record.header(header):
                round_.broken("dead letter without a reason", f"{record.where} has no {header}")


SCENARIO = Scenario("F15", "every kind of poison", disturb, after=every_letter_says_why, once_each=True)
