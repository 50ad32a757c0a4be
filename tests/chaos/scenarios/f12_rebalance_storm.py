"""F12: workers come and go every few seconds."""

import asyncio

from tests.chaos.scenario import Round, Scenario

STORM_SECONDS = 14.0
EVERY_SECONDS = 3.0


async def disturb(round_: Round) -> None:
    """A third processor and a third runner join and leave, by kill -9 and by SIGTERM in turns."""
    pipeline, nemesis = round_.pipeline, round_.nemesis
    extras = [pipeline.services.get(f"{kind}-3") or pipeline.add(kind, 3) for kind in ("processor", "runner")]
    nemesis.held.update(child.name for child in extras)
    for turn in range(int(STORM_SECONDS / EVERY_SECONDS)):
        for child in extras:
            if not child.running:
                child.start()
            elif turn % 4 < 2:
                await asyncio.to_thread(child.stop, 20)
            else:
                await asyncio.to_thread(child.kill)
                nemesis.kills += 1
            nemesis.note("storm", victim=child.name, running=child.running)
        await asyncio.sleep(EVERY_SECONDS)
    for child in extras:
        await asyncio.to_thread(child.stop, 20)
        del pipeline.services[child.name]


SCENARIO = Scenario("F12", "workers come and go", disturb)
