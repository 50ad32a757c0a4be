"""Reading while a partition's leader changes: a new topic's is to come, a broker's went."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headgate.common.control import scan as scanning
from headgate.common.control.scan import LEADER_TO_COME, Scan, Span
from headgate.common.errors import Unreachable


class Answer:
    offset = 7


class Admin:
    """A client that keeps the leaders it learnt first: `refusal` is its answer for ever."""

    def __init__(self, refusal: int | None) -> None:
        self._refusal = refusal

    def list_offsets(
        self, asked: dict[TopicPartition, Any], **_: Any
    ) -> dict[TopicPartition, Future[Answer]]:
        answers: dict[TopicPartition, Future[Answer]] = {}
        for place in asked:
            answers[place] = Future()
            if self._refusal is None:
                answers[place].set_result(Answer())
            else:
                answers[place].set_exception(KafkaException(KafkaError(self._refusal)))
        return answers


class Leaderless:
    """A connection to a broker that has a leader for its third client, and refuses the ones before it."""

    def __init__(self, refusal: int) -> None:
        self.clients = 1
        self._refusal = refusal

    @property
    def admin(self) -> Admin:
        return Admin(self._refusal if self.clients < 3 else None)

    def forget_leaders(self) -> None:
        self.clients += 1

    def partitions(self, topic: str) -> int:
        return 2


@pytest.mark.parametrize("refusal", LEADER_TO_COME)
def test_offsets_are_asked_again_by_a_new_client_until_the_leader_is_there(refusal: int) -> None:
    connection: Any = Leaderless(refusal)

    assert Scan(connection).whole("t") == [Span("t", 0, 7, 7), Span("t", 1, 7, 7)]
    assert connection.clients == 3


def test_a_leader_that_never_comes_is_given_up_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "ANSWER_SECONDS", 0)
    connection: Any = Leaderless(KafkaError.NOT_LEADER_FOR_PARTITION)

    with pytest.raises(Unreachable, match="Try again"):
        Scan(connection).whole("t")


def test_another_refusal_is_not_asked_again() -> None:
    connection: Any = Leaderless(KafkaError.INVALID_REQUEST)

    with pytest.raises(Unreachable):
        Scan(connection).whole("t")
    assert connection.clients == 1
