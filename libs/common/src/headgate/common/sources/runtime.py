"""The runtime of sources: those that are ours by partition, as the sources topic says, each followed.

Kept true by one function, `_reconcile`, called whenever the group, the topic or a task changes.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field

import structlog

from headgate.common.errors import Misconfigured
from headgate.common.fingerprints import partition_of
from headgate.common.health import Health
from headgate.common.model import Source
from headgate.common.model import Stored as Revision
from headgate.common.producer import Producer
from headgate.common.registry import Codec
from headgate.common.settings import ServiceSettings
from headgate.common.sources import telemetry
from headgate.common.sources.clock import Clock
from headgate.common.sources.follower import Follower, Opener
from headgate.common.sources.ownership import Ownership
from headgate.common.sources.position import Stored
from headgate.common.sources.publish import Publisher
from headgate.common.sources.times import micros
from headgate.common.topicadmin import TopicAdmin
from headgate.common.view import source_view

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Running:
    """A source that is followed, as it was written when that began."""

    source: Source
    task: asyncio.Task[None]


@dataclass
class Runtime:
    """One per process. `run` returns when it was told to stop, or raises when it cannot go on."""

    service: str
    settings: ServiceSettings
    opener: Opener
    producer: Producer
    codec: Codec
    health: Health
    clock: Clock
    _running: dict[str, Running] = field(default_factory=dict, init=False)
    _owned: dict[int, dict[str, Stored]] = field(default_factory=dict, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self, stop: asyncio.Event) -> None:
        kafka = self.settings.kafka
        self._topics = kafka.topics()
        self._partitions = await asyncio.to_thread(self._partition_count)
        self._publisher = Publisher(self.producer, self.codec, self._topics, self.service, self.clock)
        loop = asyncio.get_running_loop()

        def wake(*_: object) -> None:
            loop.call_soon_threadsafe(self._changed.set)

        self._view = source_view(kafka, self.codec, on_change=wake)
        ownership = Ownership(kafka, self.service, self.codec, self._gain, self._lose)
        self._view.start()
        ownership.start()
        try:
            while not stop.is_set():
                self._report(ownership)
                if self._view.ready:
                    await self._reconcile()
                await self._something_changes(stop)
        finally:
            await ownership.stop()
            await self._stop(list(self._running))
            await asyncio.to_thread(self._view.stop)

    async def _gain(self, partition: int, positions: dict[str, Stored]) -> None:
        self._owned[partition] = positions
        telemetry.PARTITIONS.set(len(self._owned))
        self._changed.set()

    async def _lose(self, partitions: set[int]) -> None:
        for partition in partitions:
            self._owned.pop(partition, None)
        telemetry.PARTITIONS.set(len(self._owned))
        await self._stop([name for name in self._running if self._partition(name) in partitions])

    async def _reconcile(self) -> None:
        wanted = {
            name: revision.spec
            for name, revision in self._view.snapshot().items()
            if self._is_ours(name, revision)
        }
        stale = [
            name
            for name, running in self._running.items()
            if running.task.done() or wanted.get(name) != running.source
        ]
        await self._stop(stale)
        for name in stale:
            if name not in wanted:
                log.info("A source is left: it was deleted, or is another provider's now.", source=name)
        for name, source in wanted.items():
            if name not in self._running and self._partition(name) in self._owned:
                stored = self._owned[self._partition(name)].get(name)
                follower = Follower(
                    source, self.opener, stored, self._publisher.publish, self._store, self.clock
                )
                task = asyncio.create_task(follower.follow(), name=f"source {name}")
                self._running[name] = Running(source, task)
        telemetry.FOLLOWED.set(len(self._running))

    def _is_ours(self, name: str, revision: Revision[Source]) -> bool:
        return revision.spec.provider in self.opener.providers and self._partition(name) in self._owned

    def _partition(self, name: str) -> int:
        return partition_of(name.encode(), self._partitions)

    async def _stop(self, names: list[str]) -> None:
        """Cancel and wait. Whatever a source was doing, its stored position is true."""
        tasks = [self._running.pop(name).task for name in names if name in self._running]
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.error("A source ended by itself; it is started again.", exc_info=result)
        for name in names:
            telemetry.forget(name)
        telemetry.FOLLOWED.set(len(self._running))

    async def _store(self, source: Source, stored: Stored) -> None:
        """Returns when the broker has the position, and only then is it what an edit or a restart finds."""
        record = {
            "source": source.name,
            "provider": stored.provider,
            "cursor": stored.cursor,
            "boundary": list(stored.boundary),
            "saved_at": micros(stored.saved_at),
            "saved_by": self.settings.instance_id or socket.gethostname(),
        }
        value = self.codec.encode("CursorRecord", record)
        await self.producer.send(self._topics.cursors, key=source.name, value=value)
        positions = self._owned.get(self._partition(source.name))
        if positions is not None:
            positions[source.name] = stored

    def _partition_count(self) -> int:
        found = TopicAdmin(self.settings.kafka).partitions().get(self._topics.cursors)
        if found is None:
            raise Misconfigured(
                f"the topic {self._topics.cursors} does not exist; run: headgate topics apply"
            )
        return found

    def _report(self, ownership: Ownership) -> None:
        problem = self.producer.fatal or ownership.failed
        if problem:
            raise Misconfigured(f"the {self.service} cannot go on and must be started anew: {problem}")
        if not self._view.ready:
            self.health.degraded("sources", "reading the list of sources")
        elif not ownership.settled:
            self.health.degraded("sources", "waiting for a share of the sources")
        else:
            self.health.ok("sources")
        if self._view.ready and not self._view.fresh():
            self.health.degraded("broker", "Kafka does not answer; positions stay where they are")
        else:
            self.health.ok("broker")

    async def _something_changes(self, stop: asyncio.Event) -> None:
        waiting = {asyncio.ensure_future(self._changed.wait()), asyncio.ensure_future(stop.wait())}
        _, pending = await asyncio.wait(waiting, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()
        self._changed.clear()
