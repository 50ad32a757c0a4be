"""F21: the cause is fixed and the dead letters are replayed; twice; while events keep coming."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.scenario import Round, Scenario
from tests.harness.pipeline import documents
from tests.harness.plan import Poison, Shares
from tests.harness.waiting import until

FIXED = 'string(event.data.grade) == "high" || event.data.grade > 2'
HEALED = frozenset({Poison.CONDITION, Poison.ENGINE})


async def disturb(round_: Round) -> None:
    """Break what the last round fixed, wait for the poison, fix it, and replay amid traffic."""
    pipeline = round_.pipeline
    await pipeline.apply(documents(pipeline.engine_url))
    await pipeline.faults()
    await round_.load.enough.wait()
    buried = pipeline.topics.dlq
    await until("there is something to replay", lambda: round_.reader.count(buried) >= 10, seconds=60)
    await pipeline.apply(documents(pipeline.engine_url, when=FIXED))
    await pipeline.faults(accept_refused=True)
    await pipeline.cli("dlq", "replay", "--yes")


async def replay_again(round_: Round) -> None:
    """Poison of the traffic that came during the first replay; then once more, which must do nothing. What no
    replay heals has died anew by then: it is put away, or the next round would replay it as if it were its own."""
    pipeline = round_.pipeline
    await pipeline.cli("dlq", "replay", "--yes")
    await pipeline.drained()
    before = len(pipeline.runs())
    inputs = [pipeline.topics.raw, pipeline.topics.matched]
    ends = pipeline.offsets.ends(inputs)
    for _ in range(2):
        await pipeline.cli("dlq", "replay", "--yes")
        await pipeline.drained()
    round_.figures["records_of_further_replays"] = sum(pipeline.offsets.ends(inputs).values()) - sum(
        ends.values()
    )
    if len(pipeline.runs()) != before:
        round_.broken(
            "a replay of nothing started runs", f"{before} runs before, {len(pipeline.runs())} after"
        )
    round_.extra = replace(round_.extra, healed=HEALED)
    await pipeline.cli("dlq", "discard", "--yes")


SCENARIO = Scenario(
    "F21", "dead letters are replayed", disturb, after=replay_again, shares=Shares(0.1, 0.05, 0.08)
)
