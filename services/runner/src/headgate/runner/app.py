"""The runner, wired. Read from top to bottom."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from typing import cast

import structlog
from confluent_kafka import KafkaException, Message

from headgate.common import runtime
from headgate.common.errors import Misconfigured, Unreachable
from headgate.common.health import Health, serve_health
from headgate.common.model import Stored, Trigger
from headgate.common.producer import Producer
from headgate.common.registry import Codec, Registry
from headgate.common.view import View, trigger_view
from headgate.runner import engines, metrics
from headgate.runner.intake import Intake
from headgate.runner.lanes import Job, Lanes, RawHeaders
from headgate.runner.outlet import Outlet
from headgate.runner.settings import RunnerSettings
from headgate.runner.starting import Starter
from headgate.runner.watchdog import Ends, stalled

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
ABORT_SECONDS = 5.0


class App:
    """One runner process. `run` returns the exit code: 0 after SIGTERM, 1 when it cannot go on."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._settings = settings
        self._health = Health("triggers", "kafka")
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why to end: '' for an orderly stop, else what went wrong."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._finish, "")

    async def run(self) -> int:
        settings, topics = self._settings, self._settings.kafka.topics()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(serve_health(self._health, settings))
            registry = Registry(settings.registry, settings.state_dir / "schemas.json")
            stack.callback(registry.close)
            codec = Codec(registry, topics)
            if not await self._learn_ids(codec):
                return 0

            producer = Producer(settings.kafka, **{"linger.ms": 1})
            stack.push_async_callback(producer.close)
            view = trigger_view(settings.kafka, codec)
            stack.callback(view.stop)
            means = engines.Means(settings, topics, producer)
            loaded = engines.load(means)
            for engine in loaded.values():
                stack.push_async_callback(engine.close)

            outlet = Outlet(producer, codec, topics, self._health)
            starter = Starter(settings.runner, codec, view, loaded, outlet)
            lanes = Lanes(
                settings.runner,
                starter.handle,
                pause=lambda number: intake.pause(number),
                resume=lambda number: intake.resume(number),
                commit=lambda number, mark: intake.commit(number, mark),
            )
            lanes.failed.add_done_callback(lambda failed: self._finish(f"{failed.exception()}"))
            intake = Intake(
                settings,
                deliver=lambda batch: self._deliver(lanes, batch),
                assign=lambda numbers: self._assign(lanes, numbers),
                release=lanes.release,
                refused=lanes.commit_again,
                failed=self._finish,
            )

            view.start()
            if not await self._triggers_read(view):
                return 0
            intake.start()
            runtime.settle()
            log.info("Runner started.", engines=sorted(loaded), max_running=settings.runner.max_running)
            watch = asyncio.create_task(self._watch(lanes, intake, starter))
            watch.add_done_callback(self._watched)
            problem = await self._end
            watch.cancel()
            return await self._leave(problem, lanes, intake)

    async def _learn_ids(self, codec: Codec) -> bool:
        """Schema ids, from the cache file or the registry; a registry that is away is waited for."""
        while not self._end.done():
            try:
                await asyncio.to_thread(codec.prepare, "MatchedEvent", "Run", "TriggerRecord")
            except Unreachable as problem:
                self._health.degraded("registry", str(problem))
                log.warning("Waiting for the schema registry.", reason=str(problem))
                await self._pause(2.0)
            else:
                self._health.ok("registry")
                return True
        return False

    async def _triggers_read(self, view: View[Stored[Trigger]]) -> bool:
        """Until the triggers are known a record's trigger could look deleted."""
        self._health.degraded("triggers", "the triggers topic is still being read")
        while not self._end.done():
            if await asyncio.to_thread(view.wait_ready, 0.5):
                self._health.ok("triggers")
                return True
        return False

    def _deliver(self, lanes: Lanes, batch: list[Message]) -> None:
        for message in batch:
            partition, offset = message.partition(), message.offset()
            lane = lanes.lanes.get(-1 if partition is None else partition)
            if lane is None or offset is None:
                continue  # given back meanwhile: whoever has it now reads it
            lanes.take(
                Job(
                    topic=message.topic() or "",
                    partition=lane.partition,
                    offset=offset,
                    key=_bytes(message.key()),
                    value=_bytes(message.value()),
                    headers=cast(RawHeaders, message.headers() or []),
                    lane=lane,
                )
            )

    def _assign(self, lanes: Lanes, numbers: list[int]) -> None:
        lanes.assign(numbers)
        self._health.ok("kafka")

    async def _watch(self, lanes: Lanes, intake: Intake, starter: Starter) -> None:
        """Metrics, readiness, and the end of a process that makes no progress."""
        ends_of = Ends(self._settings.kafka)
        while True:
            metrics.HELD.set(lanes.held)
            metrics.RUNNING.set(starter.slots.running)
            metrics.PAUSED.set(sum(lane.paused for lane in lanes.lanes.values()))
            ends: dict[int, int] = {}
            try:
                ends = await asyncio.to_thread(ends_of, list(lanes.lanes))
                trouble, intake.trouble = intake.trouble, None  # a lasting one is complained of again
                if trouble:
                    self._health.degraded("kafka", trouble)
                elif lanes.lanes:
                    self._health.ok("kafka")
            except KafkaException as problem:
                self._health.degraded("kafka", f"unreachable: {problem.args[0].str()}")
            metrics.LAG.clear()
            for number, lane in lanes.lanes.items():
                mark = lane.water.mark
                if number in ends and mark is not None:
                    metrics.LAG.labels(number).set(max(0, ends[number] - mark))
            stuck = stalled(
                lanes.lanes.values(),
                ends,
                now=time.monotonic(),
                beat_at=intake.beat_at,
                stall_seconds=self._settings.runner.stall_seconds,
            )
            if stuck:
                self._health.degraded("progress", stuck)
                self._finish(f"no progress: {stuck}")
            await asyncio.sleep(LOOK_SECONDS)

    def _watched(self, watch: asyncio.Task[None]) -> None:
        """Nobody else would notice a runner that stands still."""
        if not watch.cancelled():
            self._finish(f"the watch over progress ended: {watch.exception()}")

    async def _leave(self, problem: str, lanes: Lanes, intake: Intake) -> int:
        """Give the partitions back. The mark never covers what could not be finished, so committing it
        is right even when something went wrong."""
        self._health.degraded("runner", problem or "stopping")
        if problem:
            log.error("Stopping; unfinished records are read again.", reason=problem)
        else:
            log.info("Stopping: running calls finish, waiting records are left.", held=lanes.held)
        clean = await intake.stop(ABORT_SECONDS if problem else self._settings.runner.drain_seconds)
        if not clean:
            log.error("The Kafka thread did not end in time; some finished records may be read again.")
        return 1 if problem or not clean else 0

    async def _pause(self, seconds: float) -> None:
        await asyncio.wait([self._end], timeout=seconds)

    def _finish(self, problem: str) -> None:
        if not self._end.done():
            self._end.set_result(problem)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


async def run(settings: RunnerSettings) -> int:
    """Run until told to stop. Misconfigured is said in one line, not as a stack trace."""
    try:
        return await App(settings).run()
    except Misconfigured as problem:
        log.error("Cannot start.", reason=str(problem))
        return 2
