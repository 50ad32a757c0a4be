"""Instants: as our records carry them, and as providers write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"\d{10}(\.\d+)?|\d{13}")
"""Seconds or milliseconds of these centuries, as text. ISO 8601 would take 1795052400000 for a day in 1795."""


def micros(at: datetime) -> int:
    """Exactly: no floating point in between."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def instant(micros: int) -> datetime:
    """The way back."""
    return _EPOCH + timedelta(microseconds=micros)


def moment(value: Any) -> datetime:
    """A time out of JSON: ISO 8601, an HTTP date, or a number of seconds or milliseconds since 1970, also as text.

    What names no zone is UTC. ValueError says what cannot be read.
    """
    try:
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            milliseconds = value if abs(value) > 1e11 else value * 1000
            return _EPOCH + timedelta(milliseconds=milliseconds)
        if isinstance(value, str):
            return _in_utc(_parse(value.strip()))
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{str(value)[:80]!r} is not a time (ISO 8601, HTTP date, or seconds since 1970)")


def http_date(text: str | None) -> datetime | None:
    """A Date or Retry-After header as an instant; None when it is not one."""
    try:
        return _in_utc(parsedate_to_datetime(text or ""))
    except (ValueError, OverflowError):
        return None


def _parse(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)


def _in_utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
