"""What a page does to a position, and where reading begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Self

from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import BadItem
from headgate.common.sources.position import (
    MAX_REMEMBERED,
    Position,
    Startup,
    Stored,
    advance,
    begin,
    restore,
    resume,
    unseen,
)
from headgate.common.sources.provider import Cursor, Event, Page
from headgate.common.topics import MAX_RECORD_BYTES

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
OVERLAP = timedelta(seconds=120)


class Since(Cursor):
    since: datetime

    @classmethod
    def start(cls, at: datetime) -> Self:
        return cls(since=at)

    @property
    def watermark(self) -> datetime:
        return self.since

    def rewound(self, by: timedelta) -> Self:
        return type(self)(since=self.since - by)


class Token(Cursor):
    token: str | None = None


def at(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def event(key: str, seconds: int) -> Event:
    return Event(key=key, type="t", data={}, occurred_at=at(seconds))


def page(*events: Event, until: int, bad: tuple[BadItem, ...] = ()) -> Page[Cursor]:
    return Page(events=events, next=Since(since=at(until)), bad=bad)


def test_what_was_published_is_not_published_again_within_the_overlap() -> None:
    first = page(event("a", 0), event("b", 10), until=10)
    position = advance(Position(Since(since=NOON)), first, OVERLAP)
    again = page(event("a", 0), event("b", 10), event("c", 10), until=10)
    assert [one.key for one in unseen(position, again).events] == ["c"]


def test_a_late_arrival_behind_the_cursor_is_published() -> None:
    position = advance(Position(Since(since=NOON)), page(event("b", 100), until=100), OVERLAP)
    assert [one.key for one in unseen(position, page(event("late", 20), until=100)).events] == ["late"]


def test_a_key_that_stands_twice_on_a_page_is_one_event() -> None:
    twice = page(event("a", 0), event("a", 0), until=0)
    assert len(unseen(Position(Since(since=NOON)), twice).events) == 1


def test_an_empty_overlapping_turn_does_not_move_the_cursor_back() -> None:
    position = advance(Position(Since(since=at(500))), page(until=380), OVERLAP)
    assert position.cursor == Since(since=at(500))


def test_keys_older_than_the_overlap_are_forgotten() -> None:
    position = advance(Position(Since(since=NOON)), page(event("a", 0), event("b", 60), until=60), OVERLAP)
    assert set(position.known) == {"a", "b"}
    position = advance(position, page(event("c", 150), until=150), OVERLAP)
    assert set(position.known) == {"b", "c"}


def test_an_opaque_token_moves_as_the_provider_says_and_keeps_the_newest_keys() -> None:
    events = [Event(key=str(number), type="t", data={}) for number in range(MAX_REMEMBERED + 5)]
    position = advance(Position(Token()), Page(events=events, next=Token(token="x")), OVERLAP)
    assert position.cursor == Token(token="x")
    assert len(position.known) == MAX_REMEMBERED
    assert str(MAX_REMEMBERED + 4) in position.known


def test_keys_of_any_length_and_text_are_remembered_and_fit_a_record() -> None:
    keys = ["k" * 3000 + str(number) for number in range(MAX_REMEMBERED)] + ["\ud83d", "naïve", ""]
    events = [Event(key=key, type="t", data={}) for key in keys]
    position = advance(Position(Since(since=NOON)), page(*events, until=0), OVERLAP)
    assert unseen(position, page(*events[-MAX_REMEMBERED:], until=0)).events == []
    assert sum(len(key.encode()) + 2 for key in position.known) < MAX_RECORD_BYTES * 0.8


def test_a_bad_item_is_dead_lettered_once() -> None:
    bad = BadItem("no id", {"x": 1})
    position = advance(Position(Since(since=NOON)), page(until=0, bad=(bad,)), OVERLAP)
    assert unseen(position, page(until=0, bad=(BadItem("no id", {"x": 1}),))).bad == []


def test_a_position_of_another_provider_or_shape_is_not_used() -> None:
    stored = Stored("github", Since(since=NOON).model_dump_json(), ("a",), NOON)
    assert restore(stored, "github", Since) == Position(Since(since=NOON), {"a": NOON}, NOON)
    assert restore(stored, "gitlab", Since) is None
    assert restore(stored, "github", Token) is None


def test_start_up_modes_are_instants() -> None:
    kept = Position(Since(since=NOON), saved_at=NOON)
    backfill = Startup("backfill", timedelta(hours=4))
    assert begin(backfill, NOON) == NOON - timedelta(hours=4)
    assert begin(Startup(), NOON) == begin(Startup("ignore_historical"), NOON) == NOON
    assert resume(None, Startup(), NOON) is None
    assert resume(kept, backfill, NOON + timedelta(days=9)) is kept
    assert resume(kept, Startup(), NOON + timedelta(days=9)) is kept


def test_ignore_historical_skips_a_pause_and_not_a_takeover() -> None:
    kept = Position(Since(since=NOON), saved_at=NOON)
    mode = Startup("ignore_historical")
    assert resume(kept, mode, NOON + timedelta(seconds=20)) is kept
    assert resume(kept, mode, NOON + timedelta(hours=1)) is None


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 600)), max_size=6), max_size=8))
def test_no_page_moves_a_position_back_or_publishes_what_it_remembers(
    pages: list[list[tuple[int, int]]],
) -> None:
    position = Position(Since(since=NOON))
    for items in pages:
        events = [event(f"{number}:{seconds}", seconds) for number, seconds in items]
        given_page = page(*events, until=max((seconds for _, seconds in items), default=0))
        fresh = unseen(position, given_page)
        assert not {one.key for one in fresh.events} & set(position.known)
        assert {one.key for one in fresh.events} | set(position.known) >= {one.key for one in events}
        after = advance(position, given_page, OVERLAP)
        before, now = position.cursor.watermark, after.cursor.watermark
        assert before is not None
        assert now is not None
        assert now >= before
        position = after
