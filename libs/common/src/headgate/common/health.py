"""/livez, /readyz and /metrics, the same on every service.

A service reports in its own words: `health.degraded("broker", "unreachable for 12 s")`, `health.ok("broker")`.
Ready means that nothing is degraded and that start-up is over; the 503 says what is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

from headgate.common.settings import ServiceSettings

READY = Gauge("headgate_ready", "1 when /readyz answers 200.")


class Health:
    """What is wrong right now, by part. Starts as not ready: 'starting'."""

    def __init__(self, *parts: str) -> None:
        self._wrong: dict[str, str] = dict.fromkeys(parts or ("service",), "starting")
        READY.set(0)

    def ok(self, part: str) -> None:
        self._wrong.pop(part, None)
        READY.set(0 if self._wrong else 1)

    def degraded(self, part: str, reason: str) -> None:
        self._wrong[part] = reason
        READY.set(0)

    @property
    def ready(self) -> bool:
        return not self._wrong

    @property
    def reason(self) -> str:
        """One line: 'degraded: broker: unreachable for 12 s'."""
        if self.ready:
            return "ok"
        return "degraded: " + "; ".join(f"{part}: {why}" for part, why in sorted(self._wrong.items()))


def routes(health: Health) -> list[web.RouteDef]:
    """The three handlers, for services that serve HTTP anyway and for those that do not."""

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text=health.reason + "\n", status=200 if health.ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)]


@asynccontextmanager
async def serve_health(health: Health, settings: ServiceSettings) -> AsyncIterator[int]:
    """Serve the three on the health port for as long as the context lasts; yields the port."""
    app = web.Application()
    app.add_routes(routes(health))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.health_host, settings.health_port)
        await site.start()
        addresses = runner.addresses
        yield addresses[0][1]
    finally:
        await runner.cleanup()
