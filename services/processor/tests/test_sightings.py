"""The value of the dedupe table, and the rule by which it lets events pass."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.processor.sightings import (
    MOST,
    Sighting,
    decode,
    encode,
    first,
    newest_millis,
    remember,
)

DAY = 86_400_000

some_sightings = st.builds(
    Sighting,
    source=st.text(max_size=60),
    topic=st.integers(0, 1),
    partition=st.integers(0, 65_535),
    offset=st.integers(0, 2**62),
    millis=st.integers(0, 2**45),
)


def at(offset: int, source: str = "a", millis: int = 0) -> Sighting:
    return Sighting(source, 0, 3, offset, millis)


@given(st.lists(some_sightings, max_size=6).map(tuple))
def test_bytes_give_the_same_list_back(sightings: tuple[Sighting, ...]) -> None:
    assert decode(encode(sightings)) == sightings
    assert newest_millis(encode(sightings)) == max((one.millis for one in sightings), default=0)


@given(st.lists(some_sightings, min_size=1, max_size=3).map(tuple), st.data())
def test_bytes_cut_short_are_refused_or_end_at_an_entry(
    sightings: tuple[Sighting, ...], data: st.DataObject
) -> None:
    whole = encode(sightings)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with contextlib.suppress(ValueError):
        assert decode(cut) == sightings[: len(decode(cut))]


@pytest.mark.parametrize("value", [b"", b"\x02", b"\x00abc", b"1"])
def test_bytes_of_another_version_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="version"):
        decode(value)


def test_one_source_takes_little_room() -> None:
    assert len(encode((at(1, "github-main"),))) <= 34


def test_the_first_of_the_own_sources_counts() -> None:
    seen = (at(1, "a"), at(2, "b"), at(3, "c"))
    assert first(seen, {"b", "c"}.__contains__, 0, DAY) == seen[1]
    assert first(seen, {"x"}.__contains__, 0, DAY) is None


def test_what_the_window_has_passed_does_not_count() -> None:
    seen = (at(1, millis=0), at(2, millis=DAY))
    assert first(seen, "a".__eq__, DAY, DAY) == seen[0]
    assert first(seen, "a".__eq__, DAY + 1, DAY) == seen[1]


def test_a_repeat_changes_nothing_and_neither_does_reading_again() -> None:
    seen = remember((), at(5), DAY, DAY)
    assert seen == (at(5),)
    assert remember(seen, at(5), DAY, DAY) is None
    assert remember(seen, at(6), DAY, DAY) is None


def test_a_shorter_window_is_reopened_without_closing_a_longer_one() -> None:
    hour = DAY // 24
    seen = remember((at(1),), at(2, millis=2 * hour), hour, DAY)
    assert seen == (at(1), at(2, millis=2 * hour))
    assert first(seen, "a".__eq__, 2 * hour, hour) == at(2, millis=2 * hour)
    assert first(seen, "a".__eq__, 2 * hour, DAY) == at(1)


def test_a_repeat_each_second_does_not_make_an_endless_list() -> None:
    """A trigger's window is a second, and sightings are kept for a day: once its value did not fit any more."""
    seen: tuple[Sighting, ...] = ()
    for second in range(1_000):
        here = at(second, millis=second * 1_001)
        seen = remember(seen, here, 1_000, DAY) or seen
        assert first(seen, "a".__eq__, here.millis, 1_000) == here
        assert remember(seen, at(9_999, millis=here.millis + 1), 1_000, DAY) is None
        assert (first(seen, "a".__eq__, here.millis, DAY) == here) == (second == 0)
    assert len(seen) == MOST


def test_sources_without_number_do_not_make_an_endless_list() -> None:
    seen: tuple[Sighting, ...] = ()
    for number in range(1_000):
        seen = remember(seen, at(number, f"{number}" + "\U0001f600" * 996), DAY, DAY) or seen
    assert len(encode(seen)) < 1_000_000
    assert first(seen, lambda source: True, 0, DAY) == seen[0] == at(0, "0" + "\U0001f600" * 996)
    assert first(seen, lambda source: source.startswith("999"), 0, DAY) is None


def test_what_the_longest_window_has_passed_leaves_the_list() -> None:
    late = at(9, millis=DAY + 1)
    assert remember((at(1),), late, DAY, DAY) == (late,)
