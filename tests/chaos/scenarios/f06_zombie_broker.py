"""F6: a broker is stopped and continued: a leader that does not know it was replaced."""

import asyncio
import os
import signal

from tests.chaos.scenario import Round, Scenario

PAUSE_SECONDS = 12.0
"""Twice the brokers' session timeout: its partitions have other leaders when it wakes."""


async def disturb(round_: Round) -> None:
    broker = round_.dice.choice(round_.pipeline.cluster.kafka.brokers)
    round_.nemesis.note("pause broker", broker=broker.address)
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(PAUSE_SECONDS)
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    await asyncio.to_thread(round_.pipeline.cluster.kafka.wait_ready, 90)


SCENARIO = Scenario(
    "F6",
    "a broker is paused and wakes up",
    disturb,
    brokers=3,
    own_cluster=True,
    rate=30.0,
    drain_seconds=120,
)
