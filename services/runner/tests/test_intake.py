"""What the Kafka thread asks of its consumer, and in which order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

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

    def subscribe(self, *_: Any, **__: Any) -> None:
        pass

    def poll(self, _: float) -> None:
        while self.answers:
            self._on_commit(self.answers.pop(), [])

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        self.commits.append({one.partition: one.offset for one in offsets})

    def close(self) -> None:
        pass


@pytest.fixture
async def intake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Intake]:
    async def release(numbers: list[int], grace: float) -> dict[int, int]:
        return {}

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
