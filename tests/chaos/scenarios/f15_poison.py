"""F15: every kind of record that cannot be handled, straight to the raw topic."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.scenario import Round, Scenario
from tests.harness.evidence import Expected
from tests.harness.plan import token
from tests.harness.poison import matrix, register_bomb
from tests.harness.senders import Producers

FIRST = 900_000
"""Sequence numbers beyond any plan."""


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
