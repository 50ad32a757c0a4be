"""`headgate why` on a real Kafka: each state an event can be in, on one screen."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from headgate.common import fingerprints

pytestmark = pytest.mark.kafka


def screen(answer: Any) -> str:
    """The text, once it is known to fit."""
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    return " ".join(answer.out.split())


def test_why_tells_a_matched_event_with_its_run_and_the_engines_answer(world: Any, headgate: Any) -> None:
    event = world.event()
    world.decide(event, world.verdict(event, "page", "started", "the condition holds"))
    world.match(event, "page")
    run_id = world.run(event, "page", handle="https://engine/runs/9")

    told = screen(headgate("why", event["id"]))

    assert "page (revision 3): started" in told
    assert f"{run_id}: started" in told
    assert "https://engine/runs/9 202 accepted" in told
    assert event["fingerprint"] in told


def test_why_names_the_clause_that_said_no(world: Any, headgate: Any) -> None:
    event = world.event()
    reason = '`event.data.action == "closed"` is false: it is "opened"'
    world.decide(event, world.verdict(event, "page", "filtered", reason))

    told = screen(headgate("why", event["id"]))

    assert "page (revision 3): filtered" in told
    assert reason in told


def test_why_tells_a_duplicate_which_event_started_the_run(world: Any, headgate: Any) -> None:
    first, second = world.event(key := uuid4().hex), world.event(key)
    world.decide(first, world.verdict(first, "page", "started"))
    world.run(first, "page")
    world.decide(second, world.verdict(second, "page", "duplicate", "first seen at raw/1/2"))

    told = screen(headgate("why", second["id"]))

    assert "page (revision 3): duplicate" in told
    assert f"caused by event {first['id']}" in told


def test_why_shows_the_dead_letter_and_what_to_do(world: Any, headgate: Any) -> None:
    event = world.event()
    world.decide(event, world.verdict(event, "page", "error", "no such key: urgency"))
    at = world.letter(event, trigger="page")

    told = screen(headgate("why", event["id"]))

    assert f"letter {at.partition}/{at.offset}, waiting: processor gave up" in told
    assert "condition-error: no such key: urgency" in told
    assert "next: fix the cause, then: headgate dlq replay" in told


def test_why_finds_a_dead_letter_that_was_never_decided(world: Any, headgate: Any) -> None:
    event = world.event()
    world.letter(event, stage="ingest", code="undecodable", topic="", partition=-1, offset=-1)

    assert "undecodable" in screen(headgate("why", event["id"]))


def test_why_says_that_no_processor_is_running(world: Any, headgate: Any) -> None:
    event = world.event()

    told = screen(headgate("why", event["id"]))

    assert "not decided yet: no processor is running" in told
    assert "start it" in told


def test_why_counts_what_is_before_an_undecided_event(world: Any, headgate: Any) -> None:
    for _ in range(3):
        event = world.event("one-partition")
    world.commit("processor", event["at"], behind=2)

    waiting = headgate("why", event["id"], "-o", "json").data["waiting"]

    assert [one["stage"] for one in waiting] == ["processor"]
    assert "2 records before it" in waiting[0]["what"]


@pytest.mark.parametrize("key", ["", "team-blue"])
def test_why_says_that_a_matched_event_waits_for_the_runner(world: Any, headgate: Any, key: str) -> None:
    event = world.event()
    world.decide(event, world.verdict(event, "page", "started"))
    at = world.match(event, "page", key)

    told = screen(headgate("why", event["id"]))

    assert "matched by page, run not recorded yet: no runner is running" in told
    assert f"{at.topic}/{at.partition}/{at.offset}" in told


def test_why_takes_a_run_id_and_a_fingerprint(world: Any, headgate: Any) -> None:
    first, second = world.event(key := uuid4().hex), world.event(key)
    world.decide(first, world.verdict(first, "page", "started"))
    world.decide(second, world.verdict(second, "page", "duplicate"))
    run_id = world.run(first, "page")

    by_run = headgate("why", run_id, "-o", "json").data
    by_fingerprint = headgate("why", first["fingerprint"], "-o", "json").data

    assert by_run["event"]["id"] == by_fingerprint["event"]["id"] == first["id"]
    assert [run["run_id"] for run in by_fingerprint["runs"]] == [run_id]
    assert [other["id"] for other in by_fingerprint["others"]] == [second["id"]]
    screen(headgate("why", first["fingerprint"]))


def test_why_follows_a_replay_to_its_run(world: Any, headgate: Any) -> None:
    event = world.event()
    world.decide(event, world.verdict(event, "page", "error", "no such key"))
    at = world.letter(event, trigger="page")
    assert headgate("dlq", "replay", f"{at.partition}/{at.offset}", "--yes").code == 0
    world.decide(event, world.verdict(event, "page", "started"))
    run_id = world.run(event, "page")

    story = headgate("why", event["id"], "-o", "json").data

    assert [run["run_id"] for run in story["runs"]] == [run_id]
    assert [letter["state"] for letter in story["dead_letters"]] == ["replayed"]
    assert "decided 2 times" in screen(headgate("why", event["id"]))


def test_why_finds_another_programs_record_by_its_place_its_id_and_its_fingerprint(
    world: Any, headgate: Any
) -> None:
    number = uuid4().hex
    headers = [("ce_specversion", b"1.0"), ("ce_id", number.encode()), ("ce_source", b"billing/eu")]
    at = world.raw(
        world.connection.topics.raw, None, b'{"amount": 5}', [*headers, ("ce_type", b"order.paid")]
    )
    event_id = fingerprints.foreign_event_id(at.topic, at.partition, at.offset)
    fingerprint = f"events/billing/eu:{number}"

    by_place = headgate("why", f"events.raw/{at.partition}/{at.offset}", "-o", "json").data
    by_id = headgate("why", event_id, "-o", "json").data

    assert by_place["event"]["id"] == by_id["event"]["id"] == event_id
    assert by_id["event"]["fingerprint"] == fingerprint
    assert by_id["waiting"][0]["stage"] == "processor"
    # It stands on the partition of its fingerprint, or the processor re-keys it there.
    rekeyed = [*headers, ("headgate-origin", f"{at.topic}/{at.partition}/{at.offset}".encode())]
    world.raw(world.connection.topics.rekeyed, fingerprint.encode(), b'{"amount": 5}', rekeyed)
    by_fingerprint = headgate("why", fingerprint, "-o", "json").data
    assert by_fingerprint["event"]["id"] == event_id


def test_why_shows_the_letter_that_waits_however_many_were_replayed(world: Any, headgate: Any) -> None:
    event = world.event()
    for attempt in range(12):
        if attempt:
            headgate("dlq", "replay", "--trigger", event["id"], "--yes")
        at = world.letter(event, trigger=event["id"], attempt=attempt + 1)

    told = screen(headgate("why", event["id"]))

    assert f"letter {at.partition}/{at.offset}, waiting" in told
    assert "11 more letters of it, replayed or discarded" in told


def test_why_fits_a_screen_with_thirty_triggers_and_long_reasons(world: Any, headgate: Any) -> None:
    event = world.event()
    verdicts = [world.verdict(event, f"trigger-{n}", "filtered", "x " * 300) for n in range(30)]
    world.decide(event, *verdicts)

    assert "more: -o yaml shows everything" in screen(headgate("why", event["id"]))


def test_why_of_an_unknown_event_is_exit_3_and_says_where_it_looked(world: Any, headgate: Any) -> None:
    unknown = headgate("why", "019a9610-7a56-7c3e-9f3e-2b7d0b6a1f00")

    assert unknown.code == 3
    assert world.connection.topics.raw in unknown.err
    assert headgate("why", "what").code == 3
