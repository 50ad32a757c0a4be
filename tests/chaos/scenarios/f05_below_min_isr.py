"""F5: two of three brokers down: nothing can be stored safely, so nothing may be promised, and no cursor may move."""

import asyncio
import time

from tests.chaos.scenario import Round, Scenario
from tests.harness.history import read
from tests.harness.plan import Door

DOWN_SECONDS = 15.0
REPLICAS = {"ingest": 2, "processor": 2, "runner": 2, "poller": 1}


async def disturb(round_: Round) -> None:
    brokers = round_.pipeline.cluster.kafka.brokers
    victims = round_.dice.sample(brokers, 2)
    round_.nemesis.note("kill brokers", brokers=[broker.address for broker in victims])
    for broker in victims:
        await asyncio.to_thread(broker.process.kill)
    began = time.monotonic_ns()
    await asyncio.sleep(DOWN_SECONDS)
    ended = time.monotonic_ns()
    for broker in victims:
        broker.process.start()
    await asyncio.to_thread(round_.pipeline.cluster.kafka.wait_ready, 90)
    promised = promised_between(round_, began, ended)
    round_.figures["asked_while_down"] = promised[0]
    for seq in promised[1]:
        round_.broken("promised below min.isr", f"event {seq} was accepted while one of three brokers was up")


def promised_between(round_: Round, began: int, ended: int) -> tuple[int, list[int]]:
    """How many requests began in that time, and those that were answered with a promise in it. (What stands in an
    outside list was promised by nobody yet.)"""
    asked: dict[int, int] = {}
    kept = []
    for line in read(round_.history.path):
        if line["seq"] is None or line["f"] == "list" or not began < line["t"] < ended:
            continue
        if line["type"] == "invoke":
            asked[line["seq"]] = line["t"]
        elif line["type"] == "ok" and line["seq"] in asked:
            kept.append(line["seq"])
    return len(asked), kept


SCENARIO = Scenario(
    "F5",
    "two of three brokers down",
    disturb,
    doors=tuple(Door),
    replicas=REPLICAS,
    brokers=3,
    own_cluster=True,
    rate=25.0,
    drain_seconds=120,
)
