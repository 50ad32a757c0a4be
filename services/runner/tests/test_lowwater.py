from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.runner.lowwater import LowWater


def test_nothing_taken_commits_nothing() -> None:
    assert LowWater().mark is None


def test_an_offset_read_again_is_not_taken_twice() -> None:
    water = LowWater()
    assert water.take(7)
    assert not water.take(7)
    assert not water.take(3)
    assert water.take(9)
    water.finish(7)
    assert water.mark == 9


@given(
    gaps=st.lists(st.integers(min_value=1, max_value=5), min_size=1, max_size=40),
    moves=st.lists(st.tuples(st.booleans(), st.integers(min_value=0, max_value=40)), max_size=120),
)
def test_the_mark_never_passes_an_unfinished_record_and_never_lags_behind_the_first(
    gaps: list[int], moves: list[tuple[bool, int]]
) -> None:
    """Model: the mark is the smallest unfinished offset, or one past the newest when all are finished."""
    offsets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    water, taken, unfinished, before = LowWater(), 0, [], 0
    for take, which in moves:
        if take and taken < len(offsets):
            assert water.take(offsets[taken])
            unfinished.append(offsets[taken])
            taken += 1
        elif unfinished:
            water.finish(unfinished.pop(which % len(unfinished)))
        if taken:
            expected = min(unfinished) if unfinished else offsets[taken - 1] + 1
            assert water.mark == expected
            assert expected >= before, "a commit went backwards"
            before = expected
            assert water.span == sum(1 for offset in offsets[:taken] if offset >= expected)


@given(order=st.permutations(range(30)))
def test_what_is_remembered_is_forgotten_once_all_is_finished(order: list[int]) -> None:
    water = LowWater()
    for offset in range(30):
        water.take(offset)
    for offset in order:
        water.finish(offset)
    assert water.mark == 30
    assert water.span == 0
    assert not water._finished
