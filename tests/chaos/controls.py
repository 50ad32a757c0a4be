"""Known-bad modes: the pipeline with one guarantee taken out. A suite that stays green on these sees nothing.

Each is a launcher of its own in `broken/`, which replaces one function of a service before it runs: the product has
no switch for any of this. Where no scenario strikes just where it hurts, the control brings its own harm.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, replace

from tests.chaos.catalogue import scenarios
from tests.chaos.scenario import Round, Scenario
from tests.harness.plan import Door
from tests.harness.processes import module

from headgate.common.embedded.kafka import Broker


@dataclass(frozen=True)
class Control:
    scenario: Scenario
    wanted: frozenset[str]
    """Any of these findings says that the mode was seen for what it is."""
    runs: int = 3
    events: int | None = None


async def die_between_mark_and_output(round_: Round) -> None:
    """The processor ends itself after the table's entry is stored and before its output is."""
    point = "processor.table-before-output"
    await round_.nemesis.die_at(round_.services("processor")[0], (point, 1), (point, 3), (point, 2))


async def die_with_the_broker_away(round_: Round) -> None:
    """Ingest is killed while the broker cannot have stored what it was given."""
    (broker,) = round_.pipeline.cluster.kafka.brokers
    await asyncio.sleep(2)
    await asyncio.to_thread(broker.process.kill)
    await asyncio.sleep(2)
    for child in round_.services("ingest"):
        with round_.nemesis.holding(child):
            await asyncio.to_thread(child.kill)
            child.start()
    broker.process.start()
    await asyncio.to_thread(round_.pipeline.cluster.kafka.wait_ready, 90)


async def lose_the_leader_while_its_followers_sleep(round_: Round) -> None:
    """For a moment one broker alone has the newest records of what it leads; then it is gone."""
    brokers: list[Broker] = round_.pipeline.cluster.kafka.brokers
    for leader in brokers:
        followers = [broker for broker in brokers if broker is not leader]
        await asyncio.sleep(1)
        for broker in followers:
            os.kill(broker.process.pid, signal.SIGSTOP)
        await asyncio.sleep(2)
        await asyncio.to_thread(leader.process.kill)
        for broker in followers:
            os.kill(broker.process.pid, signal.SIGCONT)
        await asyncio.sleep(9)
        leader.process.start()
        await asyncio.to_thread(round_.pipeline.cluster.kafka.wait_ready, 90)


async def die_while_the_engine_is_slow(round_: Round) -> None:
    """The runner is killed with calls in flight that have started nothing yet."""
    await round_.pipeline.faults(seed=round_.seed, slow=1.0, slow_seconds=1.5)
    await asyncio.sleep(3)
    for child in round_.services("runner") * 2:
        await round_.nemesis.kill_and_wait(child)
        await asyncio.sleep(1)
    await round_.pipeline.faults()


WEBHOOKS = (Door.GITHUB, Door.GENERIC)
_F2 = scenarios()["F2"]

CONTROLS: dict[str, Control] = {
    "mark-before-send": Control(
        replace(
            _F2,
            disturb=die_between_mark_and_output,
            launchers={"processor": module("tests.chaos.broken.mark_before_send")},
        ),
        frozenset({"lost"}),
    ),
    "commit-ahead": Control(
        replace(
            scenarios()["F1"],
            disturb=die_while_the_engine_is_slow,
            launchers={"runner": module("tests.chaos.broken.commit_ahead")},
        ),
        frozenset({"lost", "offsets ahead"}),
    ),
    "ack-before-produce": Control(
        replace(
            scenarios()["F1"],
            disturb=die_with_the_broker_away,
            doors=WEBHOOKS,
            own_cluster=True,
            launchers={"ingest": module("tests.chaos.broken.ack_before_produce")},
        ),
        frozenset({"lost"}),
    ),
    "save-before-publish": Control(
        replace(
            scenarios()["F1"],
            launchers={"poller": module("tests.chaos.broken.save_before_publish")},
        ),
        frozenset({"cursor ahead"}),
    ),
    "acks-1": Control(
        replace(
            scenarios()["F4"],
            disturb=lose_the_leader_while_its_followers_sleep,
            doors=WEBHOOKS,
            rate=60.0,
            launchers={"ingest": module("tests.chaos.broken.acks_1")},
        ),
        frozenset({"lost"}),
    ),
}
