"""One source, followed for as long as it is ours: turn, pause, turn; an error changes the pause only."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Protocol

import structlog

from headgate.common.errors import CursorExpired
from headgate.common.model import Source
from headgate.common.sources import telemetry
from headgate.common.sources.clock import Clock
from headgate.common.sources.position import Position, Startup, Stored, begin, restore, resume
from headgate.common.sources.provider import Cursor, Page
from headgate.common.sources.reactions import reaction
from headgate.common.sources.turn import Shape, take_turn

log = structlog.get_logger(__name__)

Publish = Callable[[Source, Page[Cursor]], Awaitable[None]]
Store = Callable[[Source, Stored], Awaitable[None]]


class Opener(Protocol):
    """How a service turns a source as written into something that takes turns."""

    @property
    def providers(self) -> Collection[str]:
        """The names of the providers this service has."""

    def open(self, source: Source) -> Shape: ...


class Follower:
    """Holds the position of one source between turns."""

    def __init__(
        self,
        source: Source,
        opener: Opener,
        stored: Stored | None,
        publish: Publish,
        store: Store,
        clock: Clock,
    ) -> None:
        self._source = source
        self._opener = opener
        self._stored = stored
        self._publish = publish
        self._store = store
        self._clock = clock
        self._startup = startup(source)
        self._position: Position | None = None

    async def follow(self) -> None:
        """Until cancelled. Each page is durable before the position passes it, so any moment is a good one."""
        shape: Shape | None = None
        failures = 0
        try:
            while True:
                started = self._clock.monotonic()
                try:
                    if shape is None:
                        shape = self._opener.open(self._source)
                        self._position = self._restored(shape)
                    position = await self._turn(shape)
                except CursorExpired as error:
                    failures += 1
                    pause = self._begin_anew(error, failures)
                except Exception as error:
                    failures += 1
                    pause = self._failed(error, failures)
                else:
                    failures = 0
                    telemetry.TURNS.labels(self._source.name, "ok").inc()
                    telemetry.LAST_SUCCESS.labels(self._source.name).set(self._clock.now().timestamp())
                    pause = shape.pause_seconds(position, self._clock.monotonic() - started)
                await self._clock.sleep(pause)
        finally:
            if shape is not None:
                await shape.close()

    async def _turn(self, shape: Shape) -> Position:
        if self._position is None:
            at = begin(self._startup, await shape.now())
            self._position = await self._save(Position(shape.cursor.start(at)))
            log.info("A source begins.", source=self._source.name, provider=shape.provider, at=at.isoformat())

        async def publish(page: Page[Cursor]) -> None:
            await self._publish(self._source, page)
            if page.events or page.bad:
                names = (self._source.name, self._source.provider)
                telemetry.EVENTS.labels(*names).inc(len(page.events))
                telemetry.BAD_ITEMS.labels(*names).inc(len(page.bad))
                log.debug("Published.", source=names[0], events=len(page.events), bad=len(page.bad))

        position = await take_turn(shape, self._position, publish, self._save)
        return await self._keep_current(position)

    async def _save(self, position: Position) -> Position:
        position = replace(position, saved_at=self._clock.now())
        await self._store(
            self._source,
            Stored(
                provider=self._source.provider,
                cursor=position.cursor.model_dump_json(),
                boundary=tuple(position.known),
                saved_at=self._clock.now(),
            ),
        )
        self._position = position
        return position

    async def _keep_current(self, position: Position) -> Position:
        """`ignore_historical` tells a pause from a quiet provider by when the position was last confirmed."""
        if self._startup.mode == "ignore_historical" and position.saved_at is not None:
            age = self._clock.now() - position.saved_at
            if age > self._startup.gap / 4:
                return await self._save(position)
        return position

    def _restored(self, shape: Shape) -> Position | None:
        if self._stored is None:
            return None
        position = restore(self._stored, shape.provider, shape.cursor)
        if position is None:
            log.warning(
                "The stored position is of another provider or version; the source begins anew.",
                source=self._source.name,
            )
        return resume(position, self._startup, self._clock.now())

    def _begin_anew(self, error: CursorExpired, failures: int) -> float:
        """The provider forgot our token: take a new one. What happened in between may be missed; say so."""
        expired = self._position
        log.warning(
            "The provider has forgotten the position; the source begins anew and may miss what happened since.",
            source=self._source.name,
            since=expired and expired.saved_at and expired.saved_at.isoformat(),
            error=str(error),
        )
        telemetry.TURNS.labels(self._source.name, "cursor_expired").inc()
        self._position = None
        return reaction(error, failures, random.random()).pause_seconds  # noqa: S311 - spread, no secret

    def _failed(self, error: Exception, failures: int) -> float:
        what = reaction(error, failures, random.random())  # noqa: S311 - spread, no secret
        telemetry.TURNS.labels(self._source.name, what.outcome).inc()
        getattr(log, what.level)(
            "A source could not take its turn; its position stays.",
            source=self._source.name,
            provider=self._source.provider,
            outcome=what.outcome,
            error=str(error),
            again_in_seconds=round(what.pause_seconds, 1),
            exc_info=error if what.outcome == "bug" else None,
        )
        return what.pause_seconds


def startup(source: Source) -> Startup:
    """The start-up mode as written."""
    if isinstance(source.startup, str):
        return Startup(source.startup)
    return Startup("backfill", source.startup.backfill)
