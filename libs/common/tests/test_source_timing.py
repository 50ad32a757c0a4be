"""Pauses: rhythm, backoff, orders of providers, reactions to each error word."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import (
    AuthRejected,
    Misconfigured,
    RateLimited,
    Transient,
    Unreachable,
)
from headgate.common.sources.reactions import reaction
from headgate.common.sources.timing import (
    LONGEST_ORDERED_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Rhythm,
    backoff_seconds,
)

RANDOM = st.floats(0, 1, exclude_max=True)


@given(st.floats(0, 3_600), RANDOM)
def test_an_order_is_honoured_and_exceeded_by_a_tenth_at_most(ordered: float, random: float) -> None:
    assert ordered <= backoff_seconds(1, random, ordered) <= ordered * 1.1 + 1e-9


def test_ten_years_are_an_hour() -> None:
    assert backoff_seconds(1, 0.0, 10 * 365 * 86_400.0) == LONGEST_ORDERED_PAUSE_SECONDS


@given(st.integers(1, 10_000), RANDOM)
def test_pauses_grow_to_a_limit_and_are_never_nothing(failures: int, random: float) -> None:
    pause = backoff_seconds(failures, random)
    assert 0.5 <= pause <= LONGEST_PAUSE_SECONDS
    assert backoff_seconds(failures + 1, random) >= pause


@given(RANDOM, st.floats(0, 100))
def test_a_rhythm_counts_from_turn_to_turn_within_its_jitter(random: float, took: float) -> None:
    pause = Rhythm(timedelta(seconds=30), 0.1).pause_seconds(took, random)
    assert max(0.0, 27 - took) <= pause <= max(0.0, 33 - took)


@pytest.mark.parametrize(
    ("error", "outcome", "level"),
    [
        (Transient("x"), "transient", "warning"),
        (RateLimited("x", 5), "rate_limited", "info"),
        (AuthRejected("x"), "auth_rejected", "error"),
        (Misconfigured("x"), "misconfigured", "error"),
        (Unreachable("x"), "kafka", "warning"),
        (KeyError("x"), "bug", "error"),
    ],
)
def test_each_error_word_has_its_reaction(error: Exception, outcome: str, level: str) -> None:
    found = reaction(error, 1, 0.5)
    assert (found.outcome, found.level) == (outcome, level)


def test_what_needs_a_person_waits_longer_than_what_passes() -> None:
    assert reaction(AuthRejected("x"), 1, 0.0).pause_seconds > reaction(Transient("x"), 99, 0.9).pause_seconds
