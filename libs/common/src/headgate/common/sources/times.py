"""Instants as our records carry them: microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime) -> int:
    """Exactly: no floating point in between."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def instant(micros: int) -> datetime:
    """The way back."""
    return _EPOCH + timedelta(microseconds=micros)
