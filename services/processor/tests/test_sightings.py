"""The value of the dedupe table, and the rule by which it lets events pass."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.processor.sightings import (
    MOST,
    Sighting,
    counting,
    decode,
    encode,
    newest_millis,
    remember,
)

DAY = 86_400_000
HOUR = DAY // 24

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


@dataclass
class Trigger:
    """What of a trigger its window needs."""

    window_millis: int
    sources: str = "a"

    def listens(self, key: str) -> bool:
        return key in self.sources


def new_to(trigger: Trigger, seen: tuple[Sighting, ...]) -> list[Sighting]:
    return list(counting(seen, trigger.listens, trigger.window_millis))


def everything(seen: Sighting) -> bool:
    return True


def nothing(seen: Sighting) -> bool:
    return False


def test_the_first_of_the_own_sources_counts() -> None:
    seen = (at(1, "a"), at(2, "b"), at(3, "c"))
    assert new_to(Trigger(DAY, "bc"), seen) == [seen[1]]
    assert new_to(Trigger(DAY, "x"), seen) == []


def test_what_comes_after_the_window_counts_again_and_begins_another() -> None:
    seen = (at(1, millis=0), at(2, millis=DAY), at(3, millis=DAY + 1), at(4, millis=2 * DAY + 1))
    assert new_to(Trigger(DAY), seen) == [seen[0], seen[2]]


def test_a_repeat_changes_nothing_and_neither_does_reading_again() -> None:
    hearers = [Trigger(DAY)]
    seen = remember((), at(5), hearers, everything)
    assert seen == (at(5),)
    assert remember(seen, at(5), hearers, everything) is None
    assert remember(seen, at(6), hearers, everything) is None


def test_a_shorter_window_is_reopened_without_moving_a_longer_one() -> None:
    brief, long = Trigger(HOUR), Trigger(DAY)
    seen: tuple[Sighting, ...] = ()
    for number in range(30):
        seen = remember(seen, at(number, millis=number * 2 * HOUR), [brief, long], everything) or seen
    assert [one.offset for one in new_to(brief, seen)] == list(range(30))
    assert [one.offset for one in new_to(long, seen)] == [0, 13, 26]


def test_a_source_of_another_trigger_does_not_move_the_window_of_one_that_listens_to_both() -> None:
    both, only_b = Trigger(DAY, "ab"), Trigger(DAY, "b")
    seen = remember((at(0, "a"),), at(1, "b", HOUR), [both, only_b], everything)
    assert seen is not None
    late = remember(seen, at(2, "b", DAY + HOUR // 2), [both, only_b], everything)
    assert late is not None
    assert [one.offset for one in new_to(both, late)] == [0, 2]
    assert [one.offset for one in new_to(only_b, late)] == [1]


def test_a_full_list_gives_up_its_oldest_but_none_that_may_have_to_pass_again() -> None:
    full = tuple(at(number, millis=number * 2 * DAY) for number in range(MOST))
    new = at(MOST, millis=MOST * 2 * DAY)
    assert remember(full, new, [Trigger(DAY)], everything) == (*full[1:], new)
    assert remember(full, new, [Trigger(DAY)], nothing) is None


def test_a_repeat_each_second_makes_no_endless_list_and_no_second_run_of_a_longer_window() -> None:
    brief, long = Trigger(1_000), Trigger(DAY)
    seen: tuple[Sighting, ...] = ()
    for second in range(1_000):
        here = at(second, millis=second * 1_001)
        seen = remember(seen, here, [brief, long], everything) or seen
        assert here in new_to(brief, seen)
        assert (here in new_to(long, seen)) == (second == 0)
        assert remember(seen, at(9_999, millis=here.millis + 1), [brief, long], everything) is None
    assert len(seen) == MOST


def test_sources_without_number_make_no_endless_list() -> None:
    seen: tuple[Sighting, ...] = ()
    for number in range(1_000):
        here = at(number, f"{number}" + "\U0001f600" * 996)
        seen = remember(seen, here, [Trigger(DAY, here.source)], everything) or seen
    assert len(encode(seen)) < 1_000_000
    assert len(seen) == MOST
