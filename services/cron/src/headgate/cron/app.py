"""The cron service: the shared runtime of sources, around calendars instead of polls."""

from __future__ import annotations

from headgate.common.sources.clock import SystemClock
from headgate.common.sources.service import serve
from headgate.cron.calendar import Calendars
from headgate.cron.settings import CronSettings


async def run(settings: CronSettings) -> None:
    """Until it is told to stop."""
    clock = SystemClock()
    await serve("cron", settings, Calendars(clock), clock)
