from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runner.retry import Budget, pause, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@given(
    attempts=st.integers(1, 50),
    elapsed=st.floats(0, 1000),
    asked=st.none() | st.floats(0, 1e9),
    chance=st.floats(0, 1, exclude_max=True),
    attempt=st.integers(1, 60),
)
def test_no_budget_is_ever_overdrawn(
    attempts: int, elapsed: float, asked: float | None, chance: float, attempt: int
) -> None:
    budget = Budget(attempts)
    seconds = pause(budget, attempt=attempt, elapsed_seconds=elapsed, asked_seconds=asked, chance=chance)
    if attempt >= attempts:
        assert seconds is None
    if seconds is not None:
        assert 0 <= seconds <= budget.cap_seconds
        assert elapsed + seconds <= budget.total_seconds


def test_pauses_grow_and_stay_under_the_cap() -> None:
    budget = Budget(9, base_seconds=1, cap_seconds=60, total_seconds=1e6)
    ceilings = [
        pause(budget, attempt=n, elapsed_seconds=0, asked_seconds=None, chance=1.0) for n in range(1, 9)
    ]
    assert ceilings == [1, 4, 16, 60, 60, 60, 60, 60]


def test_the_engine_is_not_asked_before_the_time_it_named() -> None:
    assert pause(Budget(5), attempt=1, elapsed_seconds=0, asked_seconds=7, chance=0.1) == 7


def test_an_engine_cannot_ask_for_a_pause_without_end() -> None:
    assert pause(Budget(5), attempt=1, elapsed_seconds=0, asked_seconds=1e9, chance=0.1) == 60


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 3 ", 3),
        ("0", 0),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),
        ("Sun, 01 Mar 2026 13:00:30 +0100", 30),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
        ("9" * 5000, 10**9),
        ("٣", None),
    ],
)
def test_retry_after_reads_both_forms(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds
