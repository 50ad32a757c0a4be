from datetime import UTC, datetime

from headgate.common import deadletter
from headgate.common.deadletter import Reason

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORIGINAL = [("content-type", b"application/json"), ("odd", b"\xff\xfe")]
REASON = Reason(
    stage="processor",
    code="condition-error",
    message="no such key",
    topic="headgate.events.raw",
    partition=3,
    offset=17,
    trigger="t",
)


def test_a_letter_keeps_the_original_headers_and_says_why_in_connects_words():
    letter = deadletter.headers(REASON, ORIGINAL, NOW)
    assert letter[:2] == ORIGINAL
    assert ("__connect.errors.topic", b"headgate.events.raw") in letter
    assert ("__connect.errors.offset", b"17") in letter
    assert ("__connect.errors.exception.message", b"no such key") in letter


def test_the_reason_reads_back():
    read = deadletter.read(deadletter.headers(REASON, ORIGINAL, NOW))
    assert (read.stage, read.code, read.message, read.topic, read.partition, read.offset, read.trigger) == (
        "processor",
        "condition-error",
        "no such key",
        "headgate.events.raw",
        3,
        17,
        "t",
    )


def test_a_replay_carries_the_original_headers_the_next_attempt_and_its_trigger():
    letter = deadletter.headers(REASON, ORIGINAL, NOW)
    again = deadletter.replay_headers(letter, "headgate.events.dlq/0/1")
    assert again[:2] == ORIGINAL
    assert dict(again)["headgate-replay-of"] == b"headgate.events.dlq/0/1"
    assert dict(again)["headgate.attempt"] == b"2"
    assert dict(again)["headgate.trigger"] == b"t"
    assert not any(name.startswith("__connect") for name, _ in again)


def test_a_second_death_counts_on_and_does_not_pile_up_headers():
    letter = deadletter.headers(REASON, ORIGINAL, NOW)
    again = deadletter.replay_headers(letter, "headgate.events.dlq/0/1")
    second = deadletter.headers(
        Reason(stage="processor", code="x", message="m", attempt=deadletter.attempt_of(again)), again, NOW
    )
    assert deadletter.read(second).attempt == 2
    third = deadletter.replay_headers(second, "headgate.events.dlq/0/2")
    assert [value for name, value in third if name == "headgate.attempt"] == [b"3"]
    assert [value for name, value in third if name == "headgate-replay-of"] == [b"headgate.events.dlq/0/2"]
