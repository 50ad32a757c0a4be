"""How far a source is, as a value; and what a page does to it. Pure: nothing here waits or writes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from pydantic import ValidationError

from headgate.common.sources.provider import Cursor, Event, Page, key_of_bad

MAX_REMEMBERED = 10_000
"""Keys kept with a position: as many as fit a record of it, whatever they are. What falls out is published again
and recognised by the processor."""

_SHORT = re.compile(r"[\x20-\x7e]{1,64}")


@dataclass(frozen=True)
class Position:
    """A cursor, and the keys already published that an inclusive, overlapping query returns again."""

    cursor: Cursor
    known: Mapping[str, datetime | None] = field(default_factory=dict)
    saved_at: datetime | None = None


@dataclass(frozen=True)
class Stored:
    """A position as `headgate.cursors` holds it, before anyone knows the provider's cursor class."""

    provider: str
    cursor: str
    boundary: tuple[str, ...]
    saved_at: datetime


@dataclass(frozen=True)
class Startup:
    """What to do with the time before a source is first polled."""

    mode: Literal["since_last", "ignore_historical", "backfill"] = "since_last"
    backfill: timedelta = timedelta(0)
    gap: timedelta = timedelta(minutes=10)
    """`ignore_historical` skips what happened during a pause longer than this. A restart or a takeover
    is shorter and skips nothing."""


def restore(stored: Stored, provider: str, model: type[Cursor]) -> Position | None:
    """A stored position as this provider's; None when it is another provider's or of a shape long gone."""
    if stored.provider != provider:
        return None
    try:
        cursor = model.model_validate_json(stored.cursor)
    except ValidationError:
        return None
    edge = cursor.watermark
    return Position(cursor, dict.fromkeys(stored.boundary, edge), stored.saved_at)


def resume(position: Position | None, startup: Startup, now: datetime) -> Position | None:
    """The position to go on from, or None to begin anew at `begin(startup, now)`."""
    if position is None:
        return None
    paused = position.saved_at is not None and now - position.saved_at > startup.gap
    return None if startup.mode == "ignore_historical" and paused else position


def begin(startup: Startup, now: datetime) -> datetime:
    """The instant a source without a position starts at. `now` is the provider's clock."""
    return now - startup.backfill if startup.mode == "backfill" else now


def mark(key: str) -> str:
    """A key as a position keeps it: itself, or its hash where it is long or no text that a record can hold."""
    if _SHORT.fullmatch(key):
        return key
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:48]


def unseen(position: Position, page: Page[Cursor]) -> Page[Cursor]:
    """The page without what was published before, and without a key twice."""
    taken = set(position.known)
    events: list[Event] = []
    for event in page.events:
        key = mark(event.key)
        if key not in taken:
            taken.add(key)
            events.append(event)
    bad = []
    for item in page.bad:
        key = key_of_bad(item.item)
        if key not in taken:
            taken.add(key)
            bad.append(item)
    return replace(page, events=events, bad=bad)


def advance(position: Position, page: Page[Cursor], overlap: timedelta) -> Position:
    """The position after every event of the page is stored. Never behind the one before."""
    cursor = _furthest(position.cursor, page.next)
    edge = cursor.watermark
    known = dict(position.known)
    for event in page.events:
        key = mark(event.key)
        known.pop(key, None)
        known[key] = event.occurred_at or edge
    for item in page.bad:
        known[key_of_bad(item.item)] = edge
    return replace(position, cursor=cursor, known=_still_needed(known, edge, overlap))


def _furthest(before: Cursor, after: Cursor) -> Cursor:
    """An overlapping turn reads from behind the stored cursor; that must not move it back."""
    if before.watermark and after.watermark and after.watermark < before.watermark:
        return before
    return after


def _still_needed(
    known: Mapping[str, datetime | None], edge: datetime | None, overlap: timedelta
) -> Mapping[str, datetime | None]:
    """The keys that the next turn can return again, the newest ones if they are too many."""
    if edge is not None:
        known = {key: at for key, at in known.items() if at is None or at >= edge - overlap}
    newest: Sequence[str] = list(known)[-MAX_REMEMBERED:]
    return {key: known[key] for key in newest}
