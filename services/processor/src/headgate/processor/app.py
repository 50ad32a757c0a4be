"""The processor, read from top to bottom: what it waits for, what it is made of, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import faust
import structlog
from confluent_kafka import KafkaException

from headgate.common import runtime
from headgate.common.errors import HeadgateError, Misconfigured, Unreachable
from headgate.common.health import Health, serve_health
from headgate.common.registry import Codec, Registry
from headgate.common.topicadmin import TopicAdmin
from headgate.common.topics import Topics
from headgate.common.view import trigger_view
from headgate.processor import metrics, partitions, slots, worker
from headgate.processor.batching import Outbox
from headgate.processor.catalogue import Catalogue
from headgate.processor.cluster import Cluster
from headgate.processor.crash import crash
from headgate.processor.outputs import Encoder
from headgate.processor.plain import PlainOutlet, PlainTable, plain_agent
from headgate.processor.records import Reader
from headgate.processor.settings import Settings
from headgate.processor.stage import Stage
from headgate.processor.store import FingerprintStore, Storage
from headgate.processor.sweeper import Sweeper
from headgate.processor.watchdog import Seen, Watchdog

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 2.0
_STOP_SECONDS = 20.0
_MUST = (" partitions, ", "cleanup.policy is", "message.timestamp.type is")
"""What of a topic carries a guarantee: where fingerprints lie, that none expires, whose clock counts."""


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Problems that cannot be waited for end the process in `crash`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    health = Health("kafka", "registry", "triggers", "partitions")
    async with serve_health(health, settings):
        serving = asyncio.create_task(_serve(settings, health, stop))
        await asyncio.wait({serving, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            # Whatever was waited for at start-up can be left at once; the app leaves in order.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(serving), _STOP_SECONDS)
            if not serving.done():
                crash(TimeoutError(f"stopping took longer than {_STOP_SECONDS:.0f} s"))
        serving.result()


async def _serve(settings: Settings, health: Health, stop: asyncio.Event) -> None:
    topics, own = settings.kafka.topics(), settings.processor
    cluster = Cluster(settings.kafka)
    if not await _topics_there(settings, topics, health, stop):
        return
    registry = Registry(settings.registry, settings.state_dir / "schemas.json")
    codec = Codec(registry, topics)
    if not await _schemas_known(codec, health, stop):
        return
    view = trigger_view(settings.kafka, codec)
    view.start()
    try:
        while not await asyncio.to_thread(view.wait_ready, _RETRY_SECONDS):
            if stop.is_set():
                return
        health.ok("triggers")
        slot = slots.take(settings.state_dir / "processor" / settings.kafka.prefix)
        catalogue = Catalogue(view, int(own.dedupe_ttl.total_seconds() * 1000))
        app = worker.new_app(settings, slot.directory / "faust", cluster)
        table: FingerprintStore | PlainTable
        outbox: Outbox | PlainOutlet
        if own.driver == "batch":
            storage = await asyncio.to_thread(_storage, settings, slot.directory, cluster)
            table, outbox = worker.fingerprint_table(app, topics, storage), Outbox(settings.kafka)
        else:
            table, outbox = PlainTable(app, topics, own.store), PlainOutlet(app, topics, crash)
        stage = Stage(
            topics=topics,
            reader=Reader(codec.id_of("RawEvent")),
            encoder=Encoder(codec.id_of("MatchedEvent"), codec.id_of("Decision")),
            table=table,
            outbox=outbox,
            triggers=catalogue,
            fetch_schema=registry.schema,
            waiting=lambda reason: _waiting(health, reason),
        )
        sweeper = Sweeper(table)
        if own.driver == "batch":
            worker.batch_agent(app, topics, stage, sweeper, own.batch_records, crash)
        else:
            plain_agent(app, topics, stage, crash)
        # Watched from before its start: that ends with the first partitions, and what keeps those away may never say so.
        async with _background(_watch(settings, app, table, cluster, health)):
            app.finalize()
            await app.start()
            async with _background(_sweep(settings, stage, sweeper, catalogue)):
                runtime.settle()
                log.info("The processor is up.", group=topics.processor_app, store=own.store)
                await stop.wait()
                health.degraded("partitions", "stopping")
        # In order: the batch at work is finished and committed.
        await app.stop()
        if isinstance(outbox, Outbox):
            await outbox.close()
    finally:
        view.stop()
        registry.close()


def _storage(settings: Settings, directory: Path, cluster: Cluster) -> Storage:
    topics = settings.kafka.topics()
    return Storage(
        directory=directory / worker.TABLE if settings.processor.store == "rocksdb" else None,
        incarnation=cluster.topic_id(topics.fingerprints_changelog),
        end_offsets=lambda numbers: _changelog_ends(cluster, topics, numbers),
        crash=crash,
    )


async def _topics_there(settings: Settings, topics: Topics, health: Health, stop: asyncio.Event) -> bool:
    """Wait for the broker and our topics. A topic that is there and wrong is a person's business."""
    admin, said = TopicAdmin(settings.kafka), set[str]()
    while not stop.is_set():
        try:
            findings = await asyncio.to_thread(admin.check, topics)
        except (HeadgateError, KafkaException, TimeoutError) as problem:
            health.degraded("kafka", str(problem))
        else:
            wrong = {f"topic {one.topic}: {one.detail}" for one in findings if one.state == "wrong"}
            fatal = sorted(text for text in wrong if any(word in text for word in _MUST))
            if fatal:
                raise Misconfigured("; ".join(fatal))
            for text in sorted(wrong - said):
                log.warning("A topic differs from its declaration; it works all the same.", detail=text)
            said |= wrong
            missing = [one.topic for one in findings if one.state == "missing"]
            if not missing:
                health.ok("kafka")
                return True
            health.degraded("kafka", f"no topic {missing[0]}; run: headgate topics apply")
        await _pause(stop)
    return False


async def _schemas_known(codec: Codec, health: Health, stop: asyncio.Event) -> bool:
    """Learn our schemas' ids, from the cache or the registry: after that nothing of ours needs it."""
    while not stop.is_set():
        try:
            await asyncio.to_thread(codec.prepare, "RawEvent", "MatchedEvent", "Decision", "TriggerRecord")
        except Unreachable as problem:
            health.degraded("registry", str(problem))
            await _pause(stop)
        else:
            health.ok("registry")
            return True
    return False


async def _pause(stop: asyncio.Event) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(stop.wait(), _RETRY_SECONDS)


def _waiting(health: Health, reason: str | None) -> None:
    if reason is None:
        health.ok("registry")
    else:
        health.degraded("registry", reason)


def _changelog_ends(cluster: Cluster, topics: Topics, numbers: list[int]) -> dict[int, int]:
    name = topics.fingerprints_changelog
    return {number: end for (_, number), end in cluster.ends((name, one) for one in numbers).items()}


@asynccontextmanager
async def _background(job: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """A job beside the app. One that fails ends the process: none of them is optional."""
    task = asyncio.create_task(_or_crash(job))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _or_crash(job: Coroutine[Any, Any, None]) -> None:
    try:
        await job
    except Exception as problem:
        crash(problem)


async def _sweep(settings: Settings, stage: Stage, sweeper: Sweeper, catalogue: Catalogue) -> None:
    """A step for each partition of ours, between batches."""
    while True:
        await asyncio.sleep(settings.processor.sweep_seconds)
        for partition in sweeper.table.owned():
            await stage.sweep(partition, partial(sweeper.step, partition, catalogue().longest_window_millis))


async def _watch(
    settings: Settings, app: faust.App, table: FingerprintStore | PlainTable, cluster: Cluster, health: Health
) -> None:
    """Judge progress by what the broker has as committed; publish lag and table size."""
    topics, own = settings.kafka.topics(), settings.processor
    dog = Watchdog(own.stall_seconds, own.stall_exit_seconds)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if app.crashed:
            crash(app.crash_reason or RuntimeError("Faust stopped by itself"))
        busy = worker.busy(app)
        try:
            positions = {} if busy else await asyncio.to_thread(worker.positions, app, topics, cluster)
        except Unreachable as problem:
            health.degraded("kafka", str(problem))
            continue
        health.ok("kafka")
        metrics.RECOVERING.set(busy == worker.RECOVERING)
        metrics.TABLE_ENTRIES.set(table.size())
        metrics.TABLE_MEMORY.set(partitions.memory_bytes())
        for (topic, partition), (done, end) in positions.items():
            metrics.LAG.labels(topic, partition).set(max(0, end - done))
        excused = not health.ready and "registry" in health.reason
        seen = Seen(positions, busy, sum(table.offsets()), excused)
        stalls, exit_now = dog.look(seen, time.monotonic())
        if exit_now:
            crash(TimeoutError("no progress: " + "; ".join(stalls)))
        if busy or stalls:
            health.degraded("partitions", "; ".join(stalls) or busy)
        else:
            health.ok("partitions")
