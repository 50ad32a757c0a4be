"""F18: a worker is stopped for longer than its session, another takes over, and it wakes up."""

import asyncio

from tests.chaos.scenario import Round, Scenario

PAUSE_SECONDS = 14.0
"""Longer than the session timeout of 10 s."""


async def disturb(round_: Round) -> None:
    async with asyncio.TaskGroup() as pauses:
        for kind in ("processor", "runner"):
            victim = round_.dice.choice(round_.services(kind))
            pauses.create_task(round_.nemesis.pause(victim, PAUSE_SECONDS))


SCENARIO = Scenario("F18", "a paused worker wakes up as a zombie", disturb)
