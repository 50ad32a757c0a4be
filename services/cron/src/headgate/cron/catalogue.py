"""What the CLI, the docs and the tests may know of this service's provider."""

from __future__ import annotations

from headgate.common.catalogue import Provider
from headgate.cron.calendar import PROVIDER, Ticks
from headgate.cron.slots import slots_of


def providers() -> list[Provider]:
    """The entry point `headgate.providers`."""
    return [
        Provider(
            name=PROVIDER,
            shape="schedule",
            service="cron",
            config=Ticks,
            doc=(Ticks.__doc__ or "").strip(),
            module="headgate.cron.calendar",
            needs_schedule=True,
            check=lambda source: source.schedule and slots_of(source.schedule),
        )
    ]
