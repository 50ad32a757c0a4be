"""The poller: the shared runtime of sources, around the providers in `sources/`."""

from __future__ import annotations

from headgate.common.catalogue import plug_ins
from headgate.common.sources.clock import SystemClock
from headgate.common.sources.guard import networks
from headgate.common.sources.poll import Pollers
from headgate.common.sources.service import serve
from headgate.poller import sources
from headgate.poller.settings import PollerSettings


async def run(settings: PollerSettings) -> None:
    """Until it is told to stop."""
    clock = SystemClock()
    pollers = Pollers(
        providers=plug_ins(sources, "SOURCE"),
        clock=clock,
        allowed=networks(settings.egress_allow),
        timeout_seconds=settings.page_timeout_seconds,
    )
    await serve("poller", settings, pollers, clock)
