"""Dead letters on a real Kafka: found, replayed once, discarded, and readable by other tools."""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

import pytest

from headgate.common import deadletter
from headgate.common.control.events import moment
from headgate.common.control.letters import Letters, Pace
from headgate.common.control.scan import Record, Scan
from headgate.common.headers import text

pytestmark = pytest.mark.kafka


@pytest.fixture
def trigger() -> str:
    """A trigger of this test alone: its letters are found by it."""
    return f"trigger-{uuid4().hex[:8]}"


def raw_records(world: Any, key: str) -> list[Record]:
    scan = Scan(world.connection)
    found = [r for r in scan.records(scan.whole(world.connection.topics.raw)) if r.key == key.encode()]
    return sorted(found, key=lambda record: record.offset)


def test_letters_are_found_by_stage_error_and_trigger(world: Any, headgate: Any, trigger: str) -> None:
    event = world.event()
    world.letter(event, trigger=trigger)
    world.letter(event, stage="runner", code="engine-refused", message="400 no such flow", trigger=trigger)

    def found(*filters: str) -> list[str]:
        letters = headgate("dlq", "list", "--trigger", trigger, *filters, "-o", "json").data
        return sorted(letter["stage"] for letter in letters)

    assert found() == ["processor", "runner"]
    assert found("--stage", "runner") == ["runner"]
    assert found("--error", "condition-error") == ["processor"]
    assert found("--error", "no such flow") == ["runner"]
    assert found("--since", "1h") == ["processor", "runner"]
    assert found("--until", "1h") == []
    assert found("--since", "2000-01-01", "--until", "2000-01-02") == []


def test_a_replay_is_the_original_record_with_its_attempt_and_where_it_comes_from(
    world: Any, headgate: Any, trigger: str
) -> None:
    event = world.event()
    at = world.letter(event, trigger=trigger)

    answer = headgate("dlq", "replay", "--trigger", trigger, "--yes")

    assert answer.code == 0, answer.err
    first, again = raw_records(world, event["fingerprint"])
    assert again.value == first.value
    assert text(again.headers, deadletter.REPLAY_OF) == f"{at.topic}/{at.partition}/{at.offset}"
    assert text(again.headers, deadletter.ATTEMPT) == "2"
    assert text(again.headers, deadletter.TRIGGER) == trigger
    assert text(again.headers, "ce_id") == event["id"]
    names = {name for name, _ in again.headers}
    assert not {name for name in names if name.startswith(deadletter.CONNECT) or name == "headgate.stage"}


def test_a_second_replay_does_nothing_and_says_so(world: Any, headgate: Any, trigger: str) -> None:
    event = world.event()
    world.letter(event, trigger=trigger)
    headgate("dlq", "replay", "--trigger", trigger, "--yes")

    second = headgate("dlq", "replay", "--trigger", trigger, "--yes")

    assert second.code == 0
    assert "1 letter skipped: already replayed" in second.err
    assert "Nothing to replay" in second.err
    assert len(raw_records(world, event["fingerprint"])) == 2
    assert headgate("dlq", "replay", "--trigger", trigger, "--yes", "--again").code == 0
    assert len(raw_records(world, event["fingerprint"])) == 3


def test_a_replay_counts_first_and_needs_a_yes(world: Any, headgate: Any, trigger: str) -> None:
    event = world.event()
    world.letter(event, trigger=trigger)
    world.letter(event, trigger=trigger)

    asked = headgate("dlq", "replay", "--trigger", trigger)
    dry = headgate("dlq", "replay", "--trigger", trigger, "--dry-run")

    assert asked.code == 6
    assert f"2  processor condition-error  -> {world.connection.topics.raw}" in asked.err
    assert dry.code == 0
    assert "2 letters would be taken" in dry.err
    assert len(raw_records(world, event["fingerprint"])) == 1


def test_a_letter_is_marked_only_after_its_replay_is_stored(
    world: Any, headgate: Any, trigger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = world.event()
    world.letter(event, trigger=trigger)
    monkeypatch.setattr(Letters, "_mark", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))

    headgate("dlq", "replay", "--trigger", trigger, "--yes")

    monkeypatch.undo()
    assert len(raw_records(world, event["fingerprint"])) == 2


def test_a_discarded_letter_is_not_listed_and_not_replayed(world: Any, headgate: Any, trigger: str) -> None:
    event = world.event()
    world.letter(event, trigger=trigger)

    assert headgate("dlq", "discard", "--trigger", trigger, "--yes", "--note", "test data").code == 0

    assert headgate("dlq", "list", "--trigger", trigger, "-o", "json").data == []
    (kept,) = headgate("dlq", "list", "--trigger", trigger, "--all", "-o", "json").data
    assert kept["state"] == "discarded"
    assert kept["mark"]["note"] == "test data"
    assert "already discarded" in headgate("dlq", "replay", "--trigger", trigger, "--yes").err


def test_show_tells_the_reason_the_coordinates_and_the_event(world: Any, headgate: Any, trigger: str) -> None:
    event = world.event()
    at = world.letter(event, trigger=trigger)

    shown = headgate("dlq", "show", f"{at.partition}/{at.offset}")
    full = headgate("dlq", "show", f"{at.partition}/{at.offset}", "-o", "json").data

    assert "condition-error: no such key: urgency" in shown.out
    assert f"{event['at'].topic}/{event['at'].partition}/{event['at'].offset}" in shown.out
    assert full["event"]["id"] == event["id"]
    assert headgate("dlq", "show", "5/99999").code == 3
    assert headgate("dlq", "show", f"{at.topic}/{at.partition}/{at.offset}").code == 0
    elsewhere = headgate("dlq", "show", f"{world.connection.topics.raw}/{at.partition}/{at.offset}")
    assert elsewhere.code == 3, "another topic's record is no letter"


def test_bytes_that_are_no_event_are_shown_and_replayed_untouched(
    world: Any, headgate: Any, trigger: str
) -> None:
    poison = b"\x07\xff\x00poison"
    key = uuid4().hex.encode()
    topic = world.connection.topics.raw
    reason = deadletter.Reason("processor", "undecodable", "bad magic", topic=topic, trigger=trigger)
    headers = deadletter.headers(reason, [("x", b"\xff\xfe")], moment(1_700_000_000_000_000))
    at = world.raw(world.connection.topics.dlq, key, poison, headers)

    shown = headgate("dlq", "show", f"{at.partition}/{at.offset}").out
    headgate("dlq", "replay", f"{at.partition}/{at.offset}", "--yes")

    assert "poison" in shown
    (again,) = raw_records(world, key.decode())
    assert again.value == poison
    assert dict(again.headers)["x"] == b"\xff\xfe"


def test_a_letter_without_its_origin_is_left_alone_and_keeps_no_other_back(
    world: Any, headgate: Any, trigger: str
) -> None:
    event = world.event()
    world.letter(event, trigger=trigger, topic="")
    world.letter(event, trigger=trigger)

    refused = headgate("dlq", "replay", "--trigger", trigger, "--yes")

    assert refused.code == 1
    assert "the topic of origin is not in the headers" in refused.err
    assert len(raw_records(world, event["fingerprint"])) == 2
    assert len(headgate("dlq", "list", "--trigger", trigger, "-o", "json").data) == 1


def test_a_letter_that_cannot_go_back_keeps_no_other_back_and_is_named(
    world: Any, headgate: Any, trigger: str
) -> None:
    event = world.event()
    at = [
        world.letter(event, trigger=trigger, topic="payments.orders"),
        world.letter(event, trigger=trigger, topic=world.connection.topics.triggers),
    ]
    for _ in range(3):
        world.letter(event, trigger=trigger)
    # As large as the raw topic takes, until a replay adds its headers.
    topic = world.connection.topics.raw
    reason = deadletter.Reason("processor", "too-large", "it is large", topic=topic, trigger=trigger)
    headers = deadletter.headers(reason, [], moment(1_700_000_000_000_000))
    large = world.raw(world.connection.topics.dlq, b"k", os.urandom(2 * 1024 * 1024 - 80), headers)

    for written in (3, 0):
        before = len(raw_records(world, event["fingerprint"]))
        replayed = headgate("dlq", "replay", "--trigger", trigger, "--yes")
        assert replayed.code == 1
        assert "2 letters left alone: the topic of origin is not one of" in replayed.err
        for one in at:
            assert f"{one.partition}/{one.offset}" in replayed.err
        large_id = f"{large.partition}/{large.offset}"
        assert f"too large for its topic with the headers of a replay ({large_id})" in replayed.err
        assert len(raw_records(world, event["fingerprint"])) == before + written
    waiting = headgate("dlq", "list", "--trigger", trigger, "-o", "json").data
    assert len(waiting) == 3


def test_a_rate_spreads_the_replays() -> None:
    at, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        at[0] += seconds

    pace = Pace(10, clock=lambda: at[0], sleep=sleep)
    for _ in range(5):
        pace.wait(pace.burst)

    assert pace.burst == 2
    assert slept == [0.2] * 4
