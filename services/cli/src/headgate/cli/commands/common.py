"""What several commands share: times as people write them, ages, progress, a question before writing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from headgate.common.control.errors import Refused

from ..session import Session

if TYPE_CHECKING:
    from headgate.common.control.scan import Progress

SHOW_PROGRESS_AFTER_SECONDS = 0.5


def moment_ms(text: str | None, option: str) -> int | None:
    """`10m` (ago), `2026-11-18T09:00:00Z`, `2026-11-18` or `09:00` as milliseconds since 1970."""
    from headgate.common.model.durations import parse_duration

    if text is None:
        return None
    now = datetime.now(UTC)
    try:
        return round((now - parse_duration(text)).timestamp() * 1000)
    except ValueError:
        pass
    try:
        given = f"{now.astimezone().date()}T{text}" if text[2:3] == ":" else text
        parsed = datetime.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write 10m or 2h (ago), 2026-11-18T09:00:00Z or 09:00", param_hint=option
        ) from None
    return round((parsed if parsed.tzinfo else parsed.astimezone()).timestamp() * 1000)


def age(when: datetime, now: datetime | None = None) -> str:
    """`42s`, `5m`, `3h`, `2d` ago."""
    seconds = max(0.0, ((now or datetime.now(UTC)) - when).total_seconds())
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def clock(when: datetime) -> str:
    """A time to the millisecond, in UTC: what logs and topics use."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def short(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


@contextmanager
def progress(session: Session, what: str) -> Iterator[Progress | None]:
    """A line on stderr for work that takes longer than a blink; nothing when nobody watches."""
    if not session.err.is_terminal:
        yield None
        return
    started = time.monotonic()
    status = session.err.status(what)

    def told(done: int, total: int) -> None:
        if time.monotonic() - started > SHOW_PROGRESS_AFTER_SECONDS:
            status.update(f"{what}: {done:,} of {total:,} records")
            status.start()

    try:
        yield told
    finally:
        status.stop()


def confirm(session: Session, question: str, yes: bool) -> None:
    """Goes on when the user says so. Without a terminal only --yes is an answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("Nothing was done: add --yes.")
    session.err.print(f"{question} [y/N] ", end="", markup=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("Nothing was done.")
