"""The wiring that poller and cron have in common, top to bottom."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

import structlog

from headgate.common.errors import Unreachable
from headgate.common.health import Health, serve_health
from headgate.common.producer import Producer
from headgate.common.registry import Codec, Registry
from headgate.common.settings import ServiceSettings
from headgate.common.sources.clock import Clock
from headgate.common.sources.follower import Opener
from headgate.common.sources.runtime import Runtime

log = structlog.get_logger(__name__)

RETRY_SECONDS = 2.0


async def serve(service: str, settings: ServiceSettings, opener: Opener, clock: Clock) -> None:
    """Follow the sources that are ours until SIGTERM or Ctrl-C; then hand them over and return."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    health = Health("registry", "sources")
    async with serve_health(health, settings) as port:
        log.info("Starting.", health_port=port, providers=sorted(opener.providers))
        registry = Registry(settings.registry, settings.state_dir / "schemas.json")
        codec = Codec(registry, settings.kafka.topics())
        if not await until(stop, lambda: codec.prepare("RawEvent", "CursorRecord"), health):
            return
        producer = Producer(settings.kafka)
        try:
            runtime = Runtime(service, settings, opener, producer, codec, health, clock)
            await runtime.run(stop)
        finally:
            left = await producer.close()
            log.info("Stopped.", unconfirmed=left)


async def until(stop: asyncio.Event, prepare: Callable[[], None], health: Health) -> bool:
    """Wait for the registry, unready meanwhile: a server that is down at our start is no reason to crash."""
    while not stop.is_set():
        try:
            await asyncio.to_thread(prepare)
        except Unreachable as problem:
            health.degraded("registry", str(problem))
            log.warning("Waiting for the schema registry.", error=str(problem))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RETRY_SECONDS)
        else:
            health.ok("registry")
            return True
    return False
