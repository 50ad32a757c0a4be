"""F3: a rolling restart by SIGTERM, as an upgrade does it."""

import asyncio
from collections import Counter

from tests.chaos.scenario import Round, Scenario
from tests.harness.plan import Door
from tests.harness.processes import Child

REPLICAS = {"ingest": 2, "processor": 2, "runner": 2, "poller": 2, "cron": 2}
GRACE_SECONDS = 40.0
IN_FLIGHT = 64
"""Engine calls that one runner has under way at most, and that a partition which moves meanwhile may repeat."""


async def disturb(round_: Round) -> None:
    """The first replica of each service, then the second: SIGTERM, gone by itself and in order, started, ready."""
    for number in range(2):
        async with asyncio.TaskGroup() as restarts:
            for kind in REPLICAS:
                restarts.create_task(restart(round_, round_.services(kind)[number]))


async def restart(round_: Round, child: Child) -> None:
    with round_.nemesis.holding(child):
        round_.nemesis.note("restart", victim=child.name)
        code = await asyncio.to_thread(child.stop, GRACE_SECONDS)
        if code != 0:
            round_.broken("unclean stop", f"{child.name} ended with {code} on SIGTERM")
        child.start()
    await round_.pipeline.ready([child.name])


async def nothing_was_done_twice(round_: Round) -> None:
    """A service that finishes what it holds and commits leaves nothing to repeat."""
    ran = {row.run_id for row in round_.pipeline.runs()}
    tries = Counter(run_id for run_id, _ in round_.pipeline.attempts() if run_id in ran)
    again = [run_id for run_id, count in tries.items() if count > 1]
    round_.figures["runs_asked_for_again"] = len(again)
    if len(again) > IN_FLIGHT:
        round_.broken("done twice", f"{len(again)} runs were asked for again, e.g. {again[0]}")


SCENARIO = Scenario(
    "F3",
    "rolling restart by SIGTERM",
    disturb,
    after=nothing_was_done_twice,
    doors=tuple(Door),
    replicas=REPLICAS,
)
