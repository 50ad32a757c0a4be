"""F1: kill -9 of each service at random."""

import asyncio

from tests.chaos.scenario import Round, Scenario
from tests.harness.plan import Door

REPLICAS = {"ingest": 2, "processor": 2, "runner": 2, "poller": 2, "cron": 1}
KILLING_SECONDS = 14.0


async def disturb(round_: Round) -> None:
    """One killer a kind, each with its own pauses; a second of peace at the end."""
    stop = asyncio.Event()
    kinds = tuple(REPLICAS)
    async with asyncio.TaskGroup() as killers:
        for kind in kinds:
            victims = round_.services(kind)
            killers.create_task(round_.nemesis.random_kills(victims, stop, pause=(2, 6)))
        await asyncio.sleep(KILLING_SECONDS)
        stop.set()


SCENARIO = Scenario("F1", "kill -9 of each service at random", disturb, doors=tuple(Door), replicas=REPLICAS)
