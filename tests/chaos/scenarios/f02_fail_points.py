"""F2: every service ends itself at each of its named points in turn. This is what finds ordering bugs."""

import asyncio

from tests.chaos.nemesis import failpoints
from tests.chaos.scenario import Round, Scenario
from tests.harness.plan import Door

REPLICAS = {"ingest": 2, "processor": 1, "runner": 1, "poller": 1, "cron": 1}
"""One processor and one runner: the armed process sees every event, so that every point is reached."""


async def disturb(round_: Round) -> None:
    """The services die side by side, the points of one service one after the other."""

    async def visit(kind: str) -> None:
        points = failpoints(kind)
        round_.dice.shuffle(points)
        lives = [(point, round_.dice.randint(1, 3)) for point in points]
        await round_.nemesis.die_at(round_.services(kind)[0], *lives)

    async with asyncio.TaskGroup() as visits:
        for kind in REPLICAS:
            visits.create_task(visit(kind))
    for missed in round_.nemesis.missed:
        round_.broken("fail point not reached", missed)


SCENARIO = Scenario(
    "F2", "kill -9 at every named point", disturb, doors=tuple(Door), replicas=REPLICAS, rate=40.0
)
