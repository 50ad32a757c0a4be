"""F3: a rolling restart by SIGTERM, as an upgrade does it."""

import asyncio

from tests.chaos.scenario import Round, Scenario
from tests.harness.processes import Child

GRACE_SECONDS = 40.0


async def disturb(round_: Round) -> None:
    """The first replica of each service, then the second: SIGTERM, gone by itself and in order, started, ready."""
    kinds = ("ingest", "processor", "runner")
    for number in range(2):
        async with asyncio.TaskGroup() as restarts:
            for kind in kinds:
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
    attempts = round_.pipeline.attempts()
    runs = round_.pipeline.runs()
    round_.figures["attempts_beyond_runs"] = len(attempts) - len(runs)


SCENARIO = Scenario("F3", "rolling restart by SIGTERM", disturb, after=nothing_was_done_twice)
