"""The polling shape: a provider's `fetch` behind a client that is authorised, limited, bounded and guarded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx

from headgate.common.addresses import Network
from headgate.common.errors import Misconfigured, Transient
from headgate.common.model import Schedule, Source, parse_duration
from headgate.common.sources.clock import Clock
from headgate.common.sources.config import read_config
from headgate.common.sources.guard import GuardedTransport
from headgate.common.sources.position import Position
from headgate.common.sources.provider import Cursor, Page, SourceConfig
from headgate.common.sources.provider import Source as Provider
from headgate.common.sources.timing import Rhythm
from headgate.common.sources.transports import Authorized, Bounded, Budget, Dated, Limited, Patient

REQUESTS_PER_SECOND = 10.0
BURST = 20


class Poll:
    """One opened source of a polling provider."""

    def __init__(
        self,
        provider: Provider[Any, Any],
        config: SourceConfig,
        client: httpx.AsyncClient,
        *,
        clock: Clock,
        dated: Dated | None = None,
        rhythm: Rhythm | None = None,
        overlap: timedelta | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self.provider = provider.name
        self.cursor: type[Cursor] = provider.cursor
        self.overlap = provider.overlap if overlap is None else overlap
        self._source = provider
        self._config = config
        self._client = client
        self._clock = clock
        self._dated = dated
        self._rhythm = rhythm or Rhythm(provider.every)
        self._timeout_seconds = timeout_seconds

    async def now(self) -> datetime:
        """The provider's clock, off the answer to a page that is thrown away: a pod's clock that runs
        ahead would skip what happens until it is right again."""
        await self.page(self.cursor.start(self._clock.now()))
        return (self._dated and self._dated.latest) or self._clock.now()

    async def page(self, cursor: Cursor) -> Page[Cursor]:
        """The next page, within the time a page may take, with httpx's troubles in our words."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                page: Page[Cursor] = await self._source.fetch(self._client, self._config, cursor)
                return page
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Transient(
                f"{self.provider} did not finish its answer within {self._timeout_seconds:g} s"
            ) from error
        except httpx.TooManyRedirects as error:
            raise Misconfigured(f"{self.provider} redirects in a circle; correct the address") from error
        except httpx.HTTPError as error:
            raise Transient(f"the connection to {self.provider} broke ({type(error).__name__})") from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Misconfigured(
                f"the address of this {self.provider} source is not a URL: {error}"
            ) from error

    def pause_seconds(self, position: Position, turn_took: float) -> float:
        """Until the next turn: the rhythm, whatever the position."""
        return self._rhythm.pause_seconds(turn_took, random.random())  # noqa: S311 - spread, no secret

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()


@dataclass
class Pollers:
    """Opens sources of the polling providers; what they share lives here."""

    providers: Mapping[str, Provider[Any, Any]]
    clock: Clock
    allowed: list[Network]
    timeout_seconds: float = 30.0
    transport: Callable[[], httpx.AsyncBaseTransport] | None = None
    """The innermost transport, for tests; by default the guarded network."""

    def __post_init__(self) -> None:
        self._budgets: dict[str, Budget] = {}

    def open(self, source: Source) -> Poll:
        """A source as written, ready to take turns. Misconfigured says which field to correct."""
        provider = self.providers[source.provider]
        config: SourceConfig = read_config(provider.config, source)
        home = httpx.URL(str(config.base_url or provider.base_url or getattr(config, "url", "")))
        if home.scheme not in ("http", "https") or not home.host:
            raise Misconfigured(f"source {source.name}: '{home}' is not an http address")
        inner: httpx.AsyncBaseTransport = (
            self.transport() if self.transport is not None else GuardedTransport(self.allowed)
        )
        account = f"{source.provider}/{source.scope}/{home.host}"
        budget = self._budgets.setdefault(account, Budget(REQUESTS_PER_SECOND, BURST, self.clock))
        dated = Dated(Patient(Limited(Bounded(inner), budget), self.clock))
        client = httpx.AsyncClient(
            transport=Authorized(dated, home, credential(config, provider.auth_scheme)),
            base_url=home if config.base_url or provider.base_url else "",
            headers={"user-agent": "headgate-poller", **provider.headers},
            timeout=self.timeout_seconds,
            follow_redirects=True,
            max_redirects=3,
            trust_env=False,
        )
        return Poll(
            provider,
            config,
            client,
            clock=self.clock,
            dated=dated,
            rhythm=rhythm(source.schedule, provider.every),
            overlap=source.overlap,
            timeout_seconds=self.timeout_seconds,
        )


def credential(config: SourceConfig, scheme: str) -> Callable[[], tuple[str, str] | None]:
    """The header to add, read anew for each request: a rotated secret is used at once."""

    def header() -> tuple[str, str] | None:
        if config.auth is None:
            return None
        secret = config.auth.secret.resolve().get_secret_value().decode("utf-8", "replace")
        word = config.auth.scheme if config.auth.scheme is not None else scheme
        return config.auth.header, f"{word} {secret}".strip()

    return header


def rhythm(schedule: Schedule | None, default: timedelta) -> Rhythm:
    """How often, as the user wrote it. A cron expression belongs to provider `cron`."""
    if schedule is None:
        return Rhythm(default, 0.1)
    if schedule.every is None:
        raise Misconfigured("a polled source takes `schedule: {every: ...}`; cron is a provider of its own")
    if schedule.jitter is None:
        return Rhythm(schedule.every)
    if schedule.jitter.endswith("%"):
        return Rhythm(schedule.every, min(float(schedule.jitter[:-1]) / 100, 1.0))
    share = parse_duration(schedule.jitter) / schedule.every
    return Rhythm(schedule.every, min(share, 1.0))
