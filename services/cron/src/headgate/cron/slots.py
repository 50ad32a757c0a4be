"""Schedules as iterators of instants. Their only state is the last slot: `after(last)` goes on from any
slot, in any process, and gives the same slots as if it had never stopped. No schedule knows how to sleep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from headgate.common.errors import Misconfigured
from headgate.common.model import Schedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_WINDOWS = [
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(days=8),
    timedelta(days=40),
    timedelta(days=3000),
]


class Slots(Protocol):
    """Instants in UTC, growing."""

    def after(self, at: datetime) -> Iterator[datetime]:
        """Every slot later than `at`."""


@dataclass(frozen=True)
class Every:
    """An interval, counted from 1970: replicas that never met agree on its slots."""

    interval: timedelta

    def after(self, at: datetime) -> Iterator[datetime]:
        number = (at - EPOCH) // self.interval
        while True:
            number += 1
            yield EPOCH + number * self.interval


class _HalfHours(CronSim):
    """CronSim goes from hour to hour and expects to stand at minute 0. Where the clock moves by half an hour
    (Lord Howe Island) it then stands at half past, and what is due earlier in that hour would be skipped."""

    def advance_hour(self) -> bool:
        if self.dt.hour in self.hours:
            return False
        self.dt = self.dt.replace(minute=0, second=0)
        while self.dt.hour not in self.hours:
            self.tick(seconds=3600 - 60 * self.dt.minute)
            if self.dt.hour == 0:
                break
        return True


@dataclass(frozen=True)
class Cron:
    """A cron expression of five fields in a time zone, with Debian's rule for the two odd nights: what is
    due at a fixed time runs once in each; what runs every so many minutes or hours just keeps its pace.
    """

    expression: str
    tz: ZoneInfo

    def after(self, at: datetime) -> Iterator[datetime]:
        last = at
        for local in _HalfHours(self.expression, at.astimezone(self.tz)):
            slot = local.astimezone(UTC)
            if slot > last:
                yield slot
                last = slot


def latest(slots: Slots, at: datetime) -> datetime | None:
    """The last slot not later than `at`, found by going forward: one way of counting, no two opinions."""
    for window in _WINDOWS:
        found = None
        for slot in slots.after(at - window):
            if slot > at:
                break
            found = slot
        if found is not None:
            return found
    return None


def slots_of(schedule: Schedule) -> Slots:
    """A schedule as written. Misconfigured says what to write instead."""
    if schedule.every is not None:
        return Every(schedule.every)
    written = (schedule.cron or "").strip()
    expression = ALIASES.get(written.lower(), written)
    if len(expression.split()) != 5:
        raise Misconfigured(
            f"schedule.cron: '{written}' is not five fields (minute hour day month weekday) "
            f"nor one of {', '.join(ALIASES)}"
        )
    try:
        zone = ZoneInfo(schedule.tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Misconfigured(
            f"schedule.tz: there is no time zone '{schedule.tz}'; write one as in Europe/Berlin"
        ) from error
    try:
        CronSim(expression, EPOCH.astimezone(zone))
    except CronSimError as error:
        raise Misconfigured(f"schedule.cron: '{written}': {error}") from error
    return Cron(expression, zone)
