"""The trigger a record belongs to, at its newest revision: correcting an action and replaying works."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from headgate.common.model import Stored, Trigger
from headgate.common.view import FRESH_SECONDS

_LOOK_SECONDS = 0.05


class Triggers(Protocol):
    """The part of a view of triggers that is needed here."""

    def get(self, name: str) -> Stored[Trigger] | None: ...

    def fresh(self, now: float | None = None) -> bool: ...


class Gone(Exception):
    """The trigger does not exist, or not in the revision the record speaks of. The text is the reason."""


async def newest(
    view: Triggers, name: str, revision: int, *, since: float, wait_seconds: float
) -> Stored[Trigger]:
    """The newest revision we know, at least `revision`. The processor may know one before we do: then
    wait. Gone when the topic was read to its end after `since`, the record's arrival, without finding it."""
    started = time.monotonic()
    while True:
        found = view.get(name)
        if found is not None and found.revision >= revision:
            return found
        # Fresh "as of FRESH_SECONDS after since" says: the end was reached after since, not just lately.
        if view.fresh(since + FRESH_SECONDS):
            if found is not None:
                return found  # deleted and applied again: revisions count from 1, the newer one is asked
            raise Gone(f"trigger {name} was deleted; apply it again, then replay")
        if time.monotonic() - started > wait_seconds:
            raise Gone(
                f"trigger {name} in revision {revision} or newer did not arrive within {wait_seconds:g} s: "
                "the triggers topic cannot be read; see headgate doctor, then replay"
            )
        await asyncio.sleep(_LOOK_SECONDS)
