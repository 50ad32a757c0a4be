"""The load: what an event is depends on its seed and number alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.harness.plan import Door, Kind, Plan, Poison, find_token, token

SEEDS, SEQS = st.integers(0, 9999), st.integers(0, 5000)


@given(SEEDS, SEQS)
def test_the_same_number_is_the_same_event_in_any_order(seed: int, seq: int) -> None:
    plan = Plan(seed, tuple(Door))
    first = plan[seq]
    assert [Plan(seed, tuple(Door))[n] for n in (seq + 3, seq)][1] == first


@given(SEEDS, SEQS)
def test_a_duplicate_repeats_an_earlier_new_event_by_the_same_door(seed: int, seq: int) -> None:
    plan = Plan(seed, tuple(Door))
    event = plan[seq]
    if event.kind is Kind.DUPLICATE:
        origin = plan[event.origin]
        assert event.origin < seq
        assert (origin.kind, origin.origin, origin.door) == (Kind.NEW, event.origin, event.door)
    else:
        assert event.origin == seq


@given(SEEDS, SEQS)
def test_only_what_the_door_lets_through_is_poison(seed: int, seq: int) -> None:
    event = Plan(seed, tuple(Door))[seq]
    assert (event.poison is not None) == (event.kind is Kind.POISON)
    assert not (event.door.webhook and event.poison is Poison.BAD_MAGIC)
    assert not (not event.door.webhook and event.poison is Poison.NOT_JSON)


def test_the_shares_are_as_announced() -> None:
    plan = Plan(7)
    kinds = Counter(plan[seq].kind for seq in range(20_000))
    assert 0.08 < kinds[Kind.DUPLICATE] / 20_000 < 0.11
    assert 0.04 < kinds[Kind.FILTERED] / 20_000 < 0.06
    assert 0.015 < kinds[Kind.POISON] / 20_000 < 0.025


@given(SEEDS, SEQS, st.binary(max_size=20), st.binary(max_size=20))
def test_a_token_is_found_in_any_bytes(seed: int, seq: int, before: bytes, after: bytes) -> None:
    assert find_token(before + token(seed, seq).encode() + after) is not None
