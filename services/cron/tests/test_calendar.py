"""The provider cron as the runtime sees it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import Misconfigured
from headgate.common.model import Source
from headgate.common.sources.position import Position
from headgate.common.sources.turn import take_turn
from headgate.common.testing.clocks import FixedClock
from headgate.common.testing.memory import Crash, Memory
from headgate.cron.calendar import LONGEST_NAP_SECONDS, Calendars, LastSlot

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def source(schedule: dict[str, Any] | None, **config: Any) -> Source:
    spec = {"metadata": {"name": "ticks"}, "provider": "cron", "schedule": schedule, "config": config}
    return Source.model_validate(spec)


async def test_an_event_names_its_slot_in_utc_and_in_the_zone_of_the_schedule() -> None:
    clock = FixedClock(NOON)
    schedule = {"cron": "0 13 * * *", "tz": "Europe/Berlin"}
    page = (
        await Calendars(clock)
        .open(source(schedule, input={"a": 1}))
        .page(LastSlot(last=NOON - timedelta(hours=1)))
    )
    (event,) = page.events
    assert event.key == "2026-11-18T12:00:00Z"
    assert event.data == {
        "slot": "2026-11-18T12:00:00Z",
        "local": "2026-11-18T13:00:00+01:00",
        "input": {"a": 1},
    }
    assert event.occurred_at == NOON
    assert event.type == "tick"


async def test_a_schedule_that_is_edited_makes_up_for_no_slot_it_did_not_have() -> None:
    clock, memory = FixedClock(NOON), Memory()
    memory.saved = Position(LastSlot(last=NOON - timedelta(hours=2)))
    hourly = {"cron": "0 * * * *", "catch_up": "all"}
    await take_turn(Calendars(clock).open(source(hourly)), memory.saved, memory.publish, memory.save)
    assert len(memory.published) == 2

    clock.at += timedelta(minutes=30)
    edited = Calendars(clock).open(source({"every": "1m", "catch_up": "all"}))
    await take_turn(edited, memory.saved, memory.publish, memory.save)
    assert len(memory.published) == 2
    clock.at += timedelta(minutes=2)
    await take_turn(edited, memory.saved, memory.publish, memory.save)
    assert [event.key[11:16] for event in memory.published[2:]] == ["12:31", "12:32"]


async def test_it_sleeps_to_the_next_slot_in_naps() -> None:
    clock = FixedClock(NOON + timedelta(seconds=27))
    calendar = Calendars(clock).open(source({"every": "30s"}))
    assert calendar.pause_seconds(Position(LastSlot(last=NOON)), 0.0) == 3
    daily = Calendars(clock).open(source({"cron": "@daily"}))
    assert daily.pause_seconds(Position(LastSlot(last=NOON)), 0.0) == LONGEST_NAP_SECONDS


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 8)), min_size=1, max_size=10))
def test_crashes_at_any_step_and_any_moment_give_every_slot_once_by_name(
    lives: list[tuple[int, int]],
) -> None:
    """Each life runs for some seconds of turns and then crashes at one of the edges of its next effects."""

    async def scenario() -> Memory:
        clock, memory = FixedClock(NOON), Memory()
        memory.saved = Position(LastSlot(last=NOON))
        calendar = Calendars(clock).open(source({"every": "5s"}))
        for seconds, edges in [*lives, (1, 10_000)]:
            memory.edges, memory.crash_at = 0, edges
            clock.at += timedelta(seconds=seconds)
            try:
                for _ in range(3):
                    await take_turn(calendar, memory.saved, memory.publish, memory.save)
                    clock.at += timedelta(seconds=5)
            except Crash:
                pass
            assert isinstance(memory.saved.cursor, LastSlot)
            assert memory.saved.cursor.last <= max(
                [NOON, *(event.occurred_at or NOON for event in memory.published)]
            )
        return memory

    memory = asyncio.run(scenario())
    found = sorted({event.occurred_at for event in memory.published if event.occurred_at})
    assert found == [NOON + timedelta(seconds=5 * (n + 1)) for n in range(len(found))]


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        (None, "needs `schedule"),
        ({"every": "30s", "jitter": "10%"}, "slots are exact"),
        ({"cron": "x"}, "five fields"),
    ],
)
def test_a_source_that_cannot_tick_says_what_to_write(schedule: dict[str, Any] | None, says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        Calendars(FixedClock(NOON)).open(source(schedule))


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"config\.inputs"):
        Calendars(FixedClock(NOON)).open(source({"every": "30s"}, inputs={}))
