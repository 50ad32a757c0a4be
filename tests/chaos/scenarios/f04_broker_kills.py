"""F4: kill -9 of brokers: one after the other (leaders, the coordinator and the controller among them), then all."""

import asyncio

from tests.chaos.scenario import Round, Scenario

from headgate.common.embedded.kafka import Broker


async def kill_and_restart(round_: Round, brokers: list[Broker], down: float) -> None:
    round_.nemesis.note("kill brokers", brokers=[broker.address for broker in brokers])
    for broker in brokers:
        await asyncio.to_thread(broker.process.kill)
    await asyncio.sleep(down)
    for broker in brokers:
        broker.process.start()
    await asyncio.to_thread(round_.pipeline.cluster.kafka.wait_ready, 90)


async def disturb(round_: Round) -> None:
    """A round kills one broker, drawn so that every one has its turn over the seeds; every fifth kills all."""
    brokers = round_.pipeline.cluster.kafka.brokers
    if round_.seed % 5 == 0:
        await kill_and_restart(round_, list(brokers), down=2)
    else:
        await kill_and_restart(round_, [brokers[round_.seed % len(brokers)]], down=7)


SCENARIO = Scenario(
    "F4", "kill -9 of brokers", disturb, brokers=3, own_cluster=True, rate=30.0, drain_seconds=120
)
