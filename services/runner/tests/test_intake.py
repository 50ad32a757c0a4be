"""What the Kafka thread asks of its consumer, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headgate.common.settings import KafkaSettings
from headgate.common.testing.services import eventually
from headgate.runner import intake as intakes
from headgate.runner.intake import Intake
from headgate.runner.settings import RunnerSettings


class Consumer:
    """Records commits; their answers are given by the test, and arrive in `poll` as librdkafka's do."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._on_commit: Callable[..., None] = config["on_commit"]
        self.commits: list[dict[int, int]] = []
        self.answers: list[KafkaError | None] = []
        self.calls: list[str] = []
        self.refusals: list[KafkaError] = []
        """Of the next commits that wait for their answer."""
        self.called = asyncio.Event()
        """Clear while an engine call is still running."""
        self.called.set()

    def subscribe(self, *_: Any, **__: Any) -> None:
        pass

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("matched", number) for number in (0, 1)]

    def pause(self, _: list[TopicPartition]) -> None:
        self.calls.append("pause")

    def poll(self, _: float) -> None:
        self.calls.append("poll")
        while self.answers:
            self._on_commit(self.answers.pop(), [])

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.calls.append("commit soon" if asynchronous else "commit")
        if self.refusals and not asynchronous:
            raise KafkaException(self.refusals.pop(0))
        self.commits.append({one.partition: one.offset for one in offsets})

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
async def intake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Intake]:
    async def release(numbers: list[int], grace: float) -> dict[int, int]:
        await consumer_of(made).called.wait()
        return dict.fromkeys(numbers, 40)

    monkeypatch.setattr(intakes, "Consumer", Consumer)
    monkeypatch.setattr(intakes, "COMMIT_SECONDS", 0.0)
    made = Intake(
        RunnerSettings(kafka=KafkaSettings(), state_dir=tmp_path),
        deliver=lambda _: None,
        assign=lambda _: None,
        release=release,
        refused=lambda: made.commit(0, 30),
        failed=pytest.fail,
    )
    made.start()
    yield made
    assert await made.stop(1)


def consumer_of(intake: Intake) -> Any:
    return intake._consumer


async def came_round(intake: Intake, times: int = 5) -> None:
    for _ in range(times):
        before = intake.beat_at
        await eventually(lambda before=before: intake.beat_at > before)


async def test_a_commit_waits_for_the_answer_to_the_one_before_and_only_the_newest_goes(
    intake: Intake,
) -> None:
    """librdkafka repeats a commit that a broker did not answer: one that overtook it would be undone."""
    kafka = consumer_of(intake)
    intake.commit(0, 10)
    await eventually(lambda: kafka.commits)
    intake.commit(0, 15)
    intake.commit(1, 4)
    intake.commit(0, 24)
    await came_round(intake)
    assert kafka.commits == [{0: 10}]
    kafka.answers.append(None)
    await eventually(lambda: len(kafka.commits) == 2)
    assert kafka.commits[1] == {0: 24, 1: 4}


async def test_a_commit_that_was_refused_is_asked_for_again(intake: Intake) -> None:
    kafka = consumer_of(intake)
    intake.commit(0, 10)
    await eventually(lambda: kafka.commits)
    kafka.answers.append(KafkaError(KafkaError.REQUEST_TIMED_OUT))
    await eventually(lambda: kafka.commits == [{0: 10}, {0: 30}])


async def test_an_answer_that_never_comes_holds_commits_up_for_a_while_only(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intakes, "OVERDUE_SECONDS", 0.1)
    kafka = consumer_of(intake)
    intake.commit(0, 10)
    await eventually(lambda: kafka.commits)
    intake.commit(0, 15)
    await eventually(lambda: kafka.commits == [{0: 10}, {0: 15}])


async def test_running_calls_finish_in_the_group_and_are_committed_before_it_is_left(intake: Intake) -> None:
    """Within `close` no heartbeat goes out: a commit after a long wait there is refused."""
    kafka = consumer_of(intake)
    kafka.called.clear()
    stopping = asyncio.create_task(intake.stop(5))
    await eventually(lambda: "pause" in kafka.calls)
    await came_round(intake)
    kafka.called.set()
    assert await stopping
    paused = kafka.calls.index("pause")
    assert kafka.calls[paused:].count("poll") >= 2
    assert kafka.calls[-2:] == ["commit", "close"]
    assert kafka.commits[-1] == {0: 40, 1: 40}


async def test_the_last_commit_waits_for_the_rebalance_that_refuses_it(intake: Intake) -> None:
    kafka = consumer_of(intake)
    kafka.refusals = [
        KafkaError(KafkaError.ILLEGAL_GENERATION),
        KafkaError(KafkaError.REBALANCE_IN_PROGRESS),
    ]
    assert await intake.stop(5)
    assert kafka.calls[-6:] == ["commit", "poll", "commit", "poll", "commit", "close"]
    assert kafka.commits[-1] == {0: 40, 1: 40}


async def test_what_a_rebalance_takes_while_calls_finish_is_not_committed_later(intake: Intake) -> None:
    kafka = consumer_of(intake)
    kafka.called.clear()
    stopping = asyncio.create_task(intake.stop(5))
    await eventually(lambda: "pause" in kafka.calls)
    await came_round(intake)
    await asyncio.to_thread(intake._on_lost, kafka, [TopicPartition("matched", 1)])
    kafka.called.set()
    assert await stopping
    assert kafka.commits[-1] == {0: 40}
