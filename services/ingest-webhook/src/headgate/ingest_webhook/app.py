"""The wiring, top to bottom: what starts in which order, and how it stops."""

import asyncio
import gc
import signal
import time
from contextlib import closing

import structlog
from aiohttp import web

from headgate.common import binary, runtime
from headgate.common.errors import HeadgateError, Unreachable
from headgate.common.gathering import Gathering
from headgate.common.health import Health, serve_health
from headgate.common.model import Source, Stored
from headgate.common.producer import Producer
from headgate.common.registry import Codec, Registry
from headgate.common.view import View, source_view
from headgate.ingest_webhook.providers import hooks
from headgate.ingest_webhook.receiver import Receiver
from headgate.ingest_webhook.routes import Routes
from headgate.ingest_webhook.server import GuardedServer
from headgate.ingest_webhook.settings import Settings

log = structlog.get_logger(__name__)

REGISTRY_RETRY_SECONDS = 2.0
WATCH_SECONDS = 0.5
TROUBLE_SECONDS = 5.0
DELIVERY_TIMEOUT_MS = 9_000  # as long as the most patient provider waits: later than that, nobody is told


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is in flight."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    health = Health("registry", "sources", "kafka")
    with closing(Registry(settings.registry, settings.schema_cache)) as registry:
        async with serve_health(health, settings):
            codec = Codec(registry, settings.kafka.topics())
            if await prepared(codec, health, stopping):
                await serve(settings, health, codec, stopping)


async def prepared(codec: Codec, health: Health, stopping: asyncio.Event) -> bool:
    """Schema ids from the cache or the registry, however long that takes. False when told to stop first."""
    while not stopping.is_set():
        try:
            await asyncio.to_thread(codec.prepare, "RawEvent", "SourceRecord")
        except Unreachable as problem:
            health.degraded("registry", str(problem))
            log.warning("Waiting for the schema registry.", reason=str(problem))
            await until(stopping, REGISTRY_RETRY_SECONDS)
        else:
            health.ok("registry")
            return True
    return False


async def serve(settings: Settings, health: Health, codec: Codec, stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    trouble = Trouble()

    def changed(name: str, _: Stored[Source] | None) -> None:
        """Called in the view's thread."""
        loop.call_soon_threadsafe(routes.changed, name)

    sources = source_view(settings.kafka, codec, changed)
    routes = Routes(hooks(), sources, settings.limits.rate_per_second)
    producer = Producer(settings.kafka, **{"delivery.timeout.ms": DELIVERY_TIMEOUT_MS, "linger.ms": 0})
    outbox = Gathering(producer)

    receiver = Receiver(
        routes=routes,
        outbox=outbox,
        encode=binary.raw_event(codec.id_of("RawEvent")),
        topics=settings.kafka.topics(),
        limits=settings.limits,
        known=lambda: sources.ready and sources.fresh(),
        confirmed=trouble.confirmed,
    )
    sources.start()
    gc.set_threshold(20_000, 20, 50)  # nearly all that a delivery makes is gone without it
    runtime.settle()
    server = web.ServerRunner(
        GuardedServer(receiver, settings.limits), shutdown_timeout=settings.stop_seconds
    )
    await server.setup()
    try:
        await web.TCPSite(
            server, settings.webhook_host, settings.webhook_port, backlog=1024, reuse_port=False
        ).start()
        log.info(
            "Taking webhooks.", address=f"http://{settings.webhook_host}:{server.addresses[0][1]}/webhooks/"
        )
        await watch(health, sources, producer, trouble, stopping)
    finally:
        health.degraded("service", "stopping")
        await server.cleanup()  # no new connection, the answers in flight, then the rest
        outbox.release()
        left = await producer.close(settings.stop_seconds)
        if left:
            log.warning(
                "Stopped with records that Kafka never confirmed; their senders were told 503.", records=left
            )
        await asyncio.to_thread(sources.stop)
    log.info("Stopped.")


class Trouble:
    """Since when Kafka confirms nothing, as deliveries see it. Forgotten when none has failed for a while: a
    service that is not ready may be given no delivery to recover with."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._latest = 0.0

    def confirmed(self, yes: bool) -> None:
        if yes:
            self._since = None
            return
        self._latest = time.monotonic()
        if self._since is None:
            self._since = self._latest

    def lasts(self, now: float) -> float | None:
        """For how many seconds, if at all."""
        if self._since is not None and now - self._latest > TROUBLE_SECONDS:
            self._since = None
        return None if self._since is None else now - self._since


async def watch(
    health: Health,
    sources: View[Stored[Source]],
    producer: Producer,
    trouble: Trouble,
    stopping: asyncio.Event,
) -> None:
    """Keep /readyz truthful until told to stop. A producer that cannot go on ends the process."""
    fresh_at = time.monotonic()
    while not stopping.is_set():
        now = time.monotonic()
        if sources.ready:
            health.ok("sources")
        if sources.fresh():
            fresh_at = now
        if producer.fatal:
            raise HeadgateError(f"the Kafka producer cannot go on and the process stops: {producer.fatal}")
        if sources.ready and not sources.fresh():
            health.degraded("kafka", f"broker unreachable for {now - fresh_at:.0f} s")
        elif (lasts := trouble.lasts(now)) is not None:
            health.degraded("kafka", f"no delivery confirmed for {lasts:.0f} s")
        elif sources.ready:
            health.ok("kafka")
        await until(stopping, WATCH_SECONDS)


async def until(stopping: asyncio.Event, seconds: float) -> None:
    """Pause, unless told to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return
