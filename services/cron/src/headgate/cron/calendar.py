"""The provider `cron`: a source whose events are the slots of its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from headgate.common.errors import Misconfigured
from headgate.common.model import Duration, Schedule, Source
from headgate.common.sources import Cursor, Event, Page
from headgate.common.sources.clock import Clock
from headgate.common.sources.config import read_config
from headgate.common.sources.position import Position
from headgate.cron.misfire import Misfire, due
from headgate.cron.slots import Slots, slots_of

PROVIDER = "cron"
LONGEST_NAP_SECONDS = 5.0
"""A clock that is set is noticed after so long."""


class Ticks(BaseModel):
    """Fires at every slot of its `schedule`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Annotated[
        dict[str, Any],
        Field(
            description="Free data that each event carries as event.data.input.",
            examples=[{"report": "daily"}],
        ),
    ] = {}
    grace: Annotated[
        Duration,
        Field(description="How late a slot may be and still count as on time, whatever catch_up says."),
    ] = timedelta(minutes=5)
    max_age: Annotated[Duration, Field(description="Slots older than this are never caught up.")] = timedelta(
        hours=24
    )


class LastSlot(Cursor):
    """The last slot that was settled: published, or given up by the misfire policy."""

    last: datetime
    schedule: str | None = None
    """The schedule it is a slot of, as written."""
    version: int = 1

    @classmethod
    def start(cls, at: datetime) -> LastSlot:
        return cls(last=at)

    @property
    def watermark(self) -> datetime:
        return self.last


class Calendar:
    """One opened cron source."""

    provider = PROVIDER
    cursor: type[Cursor] = LastSlot
    overlap = timedelta(0)

    def __init__(self, schedule: Schedule, config: Ticks, clock: Clock) -> None:
        self._schedule = schedule
        self._slots: Slots = slots_of(schedule)
        self._written = f"{schedule.cron} {schedule.tz}" if schedule.cron else f"every {schedule.every}"
        self._misfire = Misfire(schedule.catch_up, config.grace, config.max_age)
        self._input = config.input
        self._clock = clock

    async def now(self) -> datetime:
        return self._clock.now()

    async def page(self, cursor: Cursor) -> Page[Cursor]:
        assert isinstance(cursor, LastSlot)  # noqa: S101 - the runtime restores by our own class
        now = self._clock.now()
        if cursor.schedule not in (None, self._written):
            # Nobody missed the slots that a new schedule would have had before it was written.
            return Page(events=(), next=LastSlot(last=max(cursor.last, now), schedule=self._written))
        found = due(self._slots, cursor.last, now, self._misfire)
        events = [self._event(slot) for slot in found.slots]
        return Page(events=events, next=LastSlot(last=found.settled, schedule=self._written), more=found.more)

    def pause_seconds(self, position: Position, turn_took: float) -> float:
        """To the next slot, in naps."""
        assert isinstance(position.cursor, LastSlot)  # noqa: S101 - the runtime restores by our own class
        upcoming = next(iter(self._slots.after(position.cursor.last)), None)
        if upcoming is None:
            return LONGEST_NAP_SECONDS
        left = (upcoming - self._clock.now()).total_seconds()
        return min(max(left, 0.0), LONGEST_NAP_SECONDS)

    async def close(self) -> None:
        """Nothing is held."""

    def _event(self, slot: datetime) -> Event:
        name = iso(slot)
        data = {"slot": name, "input": self._input}
        attributes = {"slot": name}
        if self._schedule.cron:
            data["local"] = slot.astimezone(ZoneInfo(self._schedule.tz)).isoformat()
            attributes["schedule"] = self._schedule.cron
        return Event(key=name, type="tick", occurred_at=slot, data=data, attributes=attributes)


class Calendars:
    """Opens cron sources."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.providers: Mapping[str, type[Ticks]] = {PROVIDER: Ticks}

    def open(self, source: Source) -> Calendar:
        if source.schedule is None:
            raise Misconfigured(
                f"source {source.name}: a cron source needs `schedule: {{every: 30s}}` or "
                f'`schedule: {{cron: "*/5 * * * *", tz: Europe/Berlin}}`'
            )
        if source.schedule.jitter:
            raise Misconfigured(f"source {source.name}: schedule.jitter spreads polls; slots are exact")
        config = read_config(Ticks, source)
        return Calendar(source.schedule, config, self._clock)


def iso(slot: datetime) -> str:
    """A slot's one name, whatever zone it was computed in."""
    return slot.astimezone(UTC).isoformat().replace("+00:00", "Z")
