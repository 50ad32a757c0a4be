"""Which slots to publish now, and which have passed for good. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from headgate.cron.slots import Slots, latest

PAGE = 100


@dataclass(frozen=True)
class Misfire:
    """What happens to slots that passed while nobody was running."""

    catch_up: Literal["none", "last", "all"] = "last"
    grace: timedelta = timedelta(minutes=5)
    """A slot no later than this is on time: a restart, a takeover, a broker away for a minute make nothing late."""
    max_age: timedelta = timedelta(hours=24)
    """What is older is never caught up."""


@dataclass(frozen=True)
class Due:
    """Slots to publish, the slot that is then the last one settled, and whether there are more."""

    slots: tuple[datetime, ...]
    settled: datetime
    more: bool = False


def due(slots: Slots, last: datetime, now: datetime, misfire: Misfire) -> Due:
    """Everything later than `last` and not later than `now`, less what the policy gives up.

    A clock that was set back finds nothing due until it has passed `last` again: no slot comes twice.
    """
    first = next(iter(slots.after(last)), None)
    if first is None or first > now:
        return Due((), last)
    begin = max(last, now - (misfire.max_age if misfire.catch_up == "all" else misfire.grace))
    found: list[datetime] = []
    for slot in takewhile(lambda slot: slot <= now, slots.after(begin)):
        if len(found) == PAGE:
            return Due(tuple(found), found[-1], more=True)
        found.append(slot)
    newest = found[-1] if found else latest(slots, now) or first
    if not found and misfire.catch_up == "last" and now - newest <= misfire.max_age:
        found = [newest]
    return Due(tuple(found), newest)
