"""From a path to the source behind it, ready to verify.

A route is built once from the source's record and its secrets, and again when the record changes or half a
minute has passed, so that a secret file that was replaced is picked up.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog
from pydantic import ValidationError

from headgate.common.errors import Misconfigured
from headgate.common.hooks import Hook, HookConfig
from headgate.common.model import Source, Stored
from headgate.ingest_webhook.limits import Bucket
from headgate.ingest_webhook.telemetry import DELIVERIES

log = structlog.get_logger(__name__)

PREFIX = "/webhooks/"
RENEW_SECONDS = 30.0
RETRY_SECONDS = 2.0
EVERY_HOOK = ("content-type", "user-agent")


class Sources(Protocol):
    """The part of a view that routes need."""

    def get(self, name: str, /) -> Stored[Source] | None: ...


@dataclass(slots=True)
class Route:
    """One source as the receiver uses it: everything that can be known before a delivery comes."""

    source: str
    provider: str
    scope: str
    hook: Hook
    config: HookConfig
    keys: tuple[bytes, ...]
    deadline_seconds: float
    attributes: tuple[str, ...]
    bucket: Bucket
    renew_at: float
    accepted: Callable[[], None]


@dataclass(slots=True)
class Broken:
    """A source that cannot verify anything now. Its deliveries are answered 503: it is our trouble."""

    source: str
    reason: str
    renew_at: float


class Routes:
    def __init__(
        self,
        hooks: Mapping[str, Hook],
        sources: Sources,
        rate_per_second: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hooks = hooks
        self._sources = sources
        self._rate = rate_per_second
        self._clock = clock
        self._by_path: dict[str, Route | Broken] = {}

    def find(self, path: str) -> Route | Broken | None:
        """The route of a request's target; None where no source of that provider is known by that name."""
        route = self._by_path.get(path)
        if route is None:
            path = path_of(path)
            route = self._by_path.get(path)
        if route is not None and self._clock() < route.renew_at:
            return route
        return self._build(path)

    def changed(self, name: str) -> None:
        """The record of this source is another one, or gone. Says at once if the new one cannot work."""
        for hook in self._hooks:
            path = f"{PREFIX}{hook}/{name}"
            before = self._by_path.pop(path, None)
            route = self._build(path)
            if isinstance(route, Broken) and not isinstance(before, Broken):
                log.error(
                    "A source cannot take deliveries; they are answered 503.",
                    source=name,
                    reason=route.reason,
                )

    def _build(self, path: str) -> Route | Broken | None:
        hook_name, _, name = path.removeprefix(PREFIX).partition("/")
        hook, stored = self._hooks.get(hook_name), self._sources.get(name)
        before = self._by_path.pop(path, None)
        if (
            not path.startswith(PREFIX)
            or hook is None
            or stored is None
            or stored.spec.provider != hook.provider
        ):
            return None
        route: Route | Broken
        try:
            route = self._ready(hook, stored.spec, before if isinstance(before, Route) else None)
        except (Misconfigured, ValidationError) as problem:
            reason = str(problem) if isinstance(problem, Misconfigured) else _first_error(problem)
            route = Broken(name, reason, self._clock() + RETRY_SECONDS)
        self._by_path[path] = route
        return route

    def _ready(self, hook: Hook, source: Source, before: Route | None) -> Route:
        config = hook.config.model_validate(source.config)
        secrets = [reference.resolve().get_secret_value() for reference in config.secrets]
        now = self._clock()
        same = before is not None and before.config == config
        return Route(
            source=source.name,
            provider=hook.provider,
            scope=source.scope,
            hook=hook,
            config=config,
            keys=hook.prepare(secrets, config),
            deadline_seconds=config.deadline_seconds or hook.deadline_seconds,
            attributes=(*EVERY_HOOK, *hook.attributes),
            bucket=before.bucket if same and before else Bucket(config.rate_per_second or self._rate, now),
            renew_at=now + RENEW_SECONDS,
            accepted=DELIVERIES.labels(source.name, "202").inc,
        )


def path_of(target: str) -> str:
    """The path in a request's target: without the query, and without scheme and host where the sender wrote the
    whole URL, as it does to a proxy and may do to anybody (RFC 9112, 3.2.2)."""
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    return target.partition("?")[0]


def _first_error(problem: ValidationError) -> str:
    """Where and why, without the value: it may be a secret that somebody wrote into the wrong field."""
    error = problem.errors(include_input=False, include_url=False)[0]
    return f"config.{'.'.join(map(str, error['loc']))}: {error['msg']}"
