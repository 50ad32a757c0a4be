"""Schedules: every slot once, from any restart, in both odd nights; and what happens to missed ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.common.errors import Misconfigured
from headgate.common.model import Schedule
from headgate.cron.misfire import PAGE, Misfire, due
from headgate.cron.slots import Cron, Every, Slots, latest, slots_of

NEW_YORK = ZoneInfo("America/New_York")
NIGHTS = {
    "spring": datetime(2026, 3, 8, 5, 0, tzinfo=UTC),
    "autumn": datetime(2026, 11, 1, 3, 0, tzinfo=UTC),
    "plain": datetime(2026, 6, 1, 3, 0, tzinfo=UTC),
    "spring in Berlin": datetime(2026, 3, 28, 22, 0, tzinfo=UTC),
    "autumn in Berlin": datetime(2026, 10, 24, 22, 0, tzinfo=UTC),
    "autumn on Lord Howe": datetime(2026, 4, 4, 12, 0, tzinfo=UTC),
    "spring on Lord Howe": datetime(2026, 10, 3, 12, 0, tzinfo=UTC),
}
SCHEDULES: list[Slots] = [
    Every(timedelta(seconds=30)),
    Every(timedelta(minutes=7)),
    *(
        Cron(text, zone)
        for zone in (NEW_YORK, ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), ZoneInfo("Australia/Lord_Howe"))
        for text in (
            "30 2 * * *",
            "30 1 * * *",
            "*/30 * * * *",
            "*/5 * * * *",
            "0 0,1,2,3 * * *",
            "15 */2 * * *",
        )
    ),
]


def between(slots: Slots, start: datetime, end: datetime) -> list[datetime]:
    return list(takewhile(lambda slot: slot <= end, slots.after(start)))


def local(slots: list[datetime], zone: ZoneInfo) -> list[str]:
    return [slot.astimezone(zone).strftime("%d %H:%M %Z") for slot in slots]


def test_a_time_in_the_gap_of_spring_runs_once_after_it() -> None:
    night = between(Cron("30 2 * * *", NEW_YORK), NIGHTS["spring"], NIGHTS["spring"] + timedelta(hours=24))
    assert local(night, NEW_YORK) == ["08 03:00 EDT"]


def test_a_time_that_comes_twice_in_autumn_runs_once() -> None:
    night = between(Cron("30 1 * * *", NEW_YORK), NIGHTS["autumn"], NIGHTS["autumn"] + timedelta(hours=24))
    assert local(night, NEW_YORK) == ["01 01:30 EDT"]


def test_a_pace_is_kept_through_the_hour_that_comes_twice() -> None:
    night = between(Cron("*/30 * * * *", NEW_YORK), NIGHTS["autumn"], NIGHTS["autumn"] + timedelta(hours=5))
    assert [b - a for a, b in pairwise(night)] == [timedelta(minutes=30)] * (len(night) - 1)


def test_a_clock_that_moves_by_half_an_hour_costs_no_slot() -> None:
    lord_howe = ZoneInfo("Australia/Lord_Howe")
    start = NIGHTS["autumn on Lord Howe"]
    night = between(Cron("15 */2 * * *", lord_howe), start, start + timedelta(hours=8))
    assert local(night, lord_howe) == ["05 00:15 +11", "05 02:15 +1030", "05 04:15 +1030", "05 06:15 +1030"]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from(sorted(NIGHTS)),
    st.lists(st.integers(0, 8 * 3600 * 1000), min_size=1, max_size=6),
)
@example(Cron("30 1 * * *", NEW_YORK), "autumn", [3 * 3600 * 1000 + 600 * 1000])
@example(Cron("0,30 2 * * *", NEW_YORK), "spring", [3600 * 1000])
def test_restarts_at_any_instant_give_every_slot_once(slots: Slots, night: str, restarts: list[int]) -> None:
    start, end = NIGHTS[night], NIGHTS[night] + timedelta(hours=8)
    whole = between(slots, start, end)
    pieces: list[datetime] = []
    last = start
    for instant in sorted(start + timedelta(milliseconds=offset) for offset in restarts):
        piece = between(slots, last, instant)
        pieces += piece
        last = piece[-1] if piece else last
        assert between(slots, instant, end) == [slot for slot in whole if slot > instant]
    pieces += between(slots, last, end)
    assert pieces == whole == sorted(set(whole))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from(sorted(NIGHTS)),
    st.lists(st.integers(-3600, 3600), min_size=1, max_size=40),
)
def test_a_clock_that_jumps_back_and_forth_publishes_no_slot_twice_and_skips_none(
    slots: Slots, night: str, jumps: list[int]
) -> None:
    now = last = NIGHTS[night]
    published: list[datetime] = []
    for jump in jumps:
        now += timedelta(seconds=jump)
        more = True
        while more:
            found = due(slots, last, now, Misfire("all", max_age=timedelta(days=30)))
            published += found.slots
            last, more = found.settled, found.more
    assert published == between(slots, NIGHTS[night], last)


@given(st.integers(0, 10**9), st.integers(1, 10**5))
def test_an_interval_is_counted_from_1970_wherever_it_is_started(offset: int, seconds: int) -> None:
    slots = Every(timedelta(seconds=seconds))
    start = datetime(1971, 1, 1, tzinfo=UTC) + timedelta(seconds=offset)
    first, second = islice(slots.after(start), 2)
    assert start < first <= start + timedelta(seconds=seconds)
    assert first.timestamp() % seconds == 0
    assert second - first == timedelta(seconds=seconds)


HOURLY = Cron("0 * * * *", ZoneInfo("UTC"))
NOON = datetime(2026, 11, 18, 12, 0, 10, tzinfo=UTC)


def test_a_takeover_makes_nothing_late_whatever_the_policy() -> None:
    last = NOON - timedelta(seconds=40)
    for policy in ("none", "last", "all"):
        found = due(Every(timedelta(seconds=5)), last, NOON, Misfire(policy))
        assert len(found.slots) == 8
        assert found.settled == NOON


def test_none_gives_missed_slots_up_and_goes_on_from_now() -> None:
    at = NOON + timedelta(minutes=30)
    found = due(HOURLY, NOON - timedelta(hours=5), at, Misfire("none"))
    assert found.slots == ()
    assert found.settled == latest(HOURLY, at)
    assert due(HOURLY, found.settled, at, Misfire("none")).slots == ()


def test_last_catches_one_up() -> None:
    at = NOON + timedelta(minutes=30)
    found = due(HOURLY, NOON - timedelta(hours=5), at, Misfire("last"))
    assert found.slots == (latest(HOURLY, at),)


def test_last_adds_none_to_a_slot_that_is_on_time() -> None:
    found = due(HOURLY, NOON - timedelta(hours=5), NOON, Misfire("last"))
    assert found.slots == (NOON.replace(second=0),)


def test_all_catches_every_one_up_to_the_age() -> None:
    found = due(HOURLY, NOON - timedelta(days=3), NOON, Misfire("all", max_age=timedelta(hours=6)))
    assert len(found.slots) == 6
    assert found.slots[-1] == NOON.replace(second=0)


def test_many_missed_slots_come_in_pages() -> None:
    slots, last, got, more = Every(timedelta(seconds=1)), NOON - timedelta(seconds=250), 0, True
    while more:
        found = due(slots, last, NOON, Misfire("all"))
        assert len(found.slots) <= PAGE
        got, last, more = got + len(found.slots), found.settled, found.more
    assert got == 250


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ({"cron": "* * *"}, "five fields"),
        ({"cron": "0 0 * * * *"}, "five fields"),
        ({"cron": "61 * * * *"}, "minute"),
        ({"cron": "0 0 31 2 *"}, "day"),
        ({"cron": "@sometimes"}, "@hourly"),
        ({"cron": "0 0 * * *", "tz": "Mars/Base"}, "Mars/Base"),
        ({"cron": "0 0 * * *", "tz": "../etc/passwd"}, "time zone"),
    ],
)
def test_a_schedule_that_means_nothing_is_refused_with_the_way_out(
    schedule: dict[str, str], says: str
) -> None:
    with pytest.raises(Misconfigured, match=f"(?i){says}"):
        slots_of(Schedule.model_validate(schedule))


@pytest.mark.parametrize(
    "alias", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"]
)
def test_aliases_are_schedules(alias: str) -> None:
    assert next(iter(slots_of(Schedule(cron=alias)).after(NOON))) > NOON
