"""Durations as people write them: 30s, 5m, 1h30m, 24h, 7d."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST_SECONDS = 36_500 * 86_400
"""A hundred years: reckoning with more leaves the calendar."""
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> timedelta:
    """'1h30m' as a timedelta. ValueError says how to write it."""
    stripped = text.replace(" ", "")
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise ValueError(f"{text!r} is not a duration; write 30s, 5m, 1h30m, 24h or 7d")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is longer than a hundred years (36500d)")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """The shortest way to write it that parse_duration reads back."""
    left = round(value.total_seconds() * 1000)
    out = ""
    for unit in ("d", "h", "m", "s", "ms"):
        size = round(_SECONDS[unit] * 1000)
        count, left = divmod(left, size)
        if count:
            out += f"{count}{unit}"
    return out or "0s"


def _read(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta):
        return value
    raise ValueError(f"{value!r} has no unit; write 30s, 5m, 1h30m, 24h or 7d")


Duration = Annotated[
    timedelta,
    BeforeValidator(_read),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$", "examples": ["30s", "24h"]}
    ),
]
