"""F20: the engine breaks before and after the start, loses its reply, is busy, is slow, says that the run exists."""

from tests.chaos.scenario import Round, Scenario


async def disturb(round_: Round) -> None:
    faults = {"error_before": 0.1, "error_after": 0.1, "drop_reply": 0.2, "too_many": 0.1, "slow": 0.02}
    await round_.pipeline.faults(
        seed=round_.seed, slow_seconds=4.0, conflict=round_.dice.random() < 0.5, **faults
    )
    await round_.load.enough.wait()


async def more_asked_than_started(round_: Round) -> None:
    """Otherwise the engine was well and the scenario proved nothing."""
    asked, started = len(round_.pipeline.attempts()), len(round_.pipeline.runs())
    if asked <= started:
        round_.broken("no fault", f"{asked} attempts for {started} runs")


SCENARIO = Scenario(
    "F20", "an engine that misbehaves", disturb, after=more_asked_than_started, once_each=True
)
