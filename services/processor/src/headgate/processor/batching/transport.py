"""A Faust transport that hands an agent whole batches. Plugged in by URL scheme: `headgate+batch://host:port`.

It overrides what faust-streaming 0.15.3 calls between a fetch and a commit, private methods among them; the
version is pinned, and tests/test_batching_contract.py holds the real Faust to what is assumed here:

* a batch is handed out once, in the generation in which it was fetched, or not at all;
* an offset is committed only behind an unbroken run of finished batches;
* when partitions go, batches at work are waited for, their offsets committed, and the rest forgotten;
* what is dropped between fetch and agent is read again;
* one record that aiokafka cannot read does not stop its partition;
* what a producer's transaction took back is not handed out;
* a changelog is handed to Faust's recovery in batches too, and up to a record that was written for it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from faust import Event
from faust.transport.consumer import ensure_TP, ensure_TPset
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from headgate.processor.batching.ledger import Batch, Ledger
from headgate.processor.batching.salvage import Salvage

SCHEME = "headgate+batch"
MAX_AHEAD = 4
"""Batches fetched and not yet finished: enough to keep the agent busy, few enough to bound memory."""
MAX_SMALL_AHEAD = 32
FEW_RECORDS = 1_000
"""So many batches may be ahead while they have few records in all: small ones are worked on together."""
_RECOVERY_PAUSE_SECONDS = 0.005
_FETCH_WAIT_MILLIS = 100
_REFETCH_SECONDS = 0.005

Records = Sequence[Any]
"""aiokafka's ConsumerRecord objects of one partition, in order."""
Barrier = Callable[[Iterable[tuple[str, int]]], Mapping[tuple[str, int], int]]
"""Writes a record to each partition and tells the offsets behind them. Blocking."""


class Fetched(dict[Any, Records]):
    """Records by partition, and the generation and epoch in which they were asked for and taken."""

    def __init__(self, records: Mapping[Any, Records], generation: int, epoch: object) -> None:
        super().__init__(records)
        self.generation = generation
        self.epoch = epoch


class BatchConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread; a record that aiokafka cannot read is read by other means."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Faust lets the broker hold a fetch for 1.5 s, and aiokafka has one under way at a time: once the busy
        partitions had their records, it asked for the idle ones, and everybody waited for nothing to come."""
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = _FETCH_WAIT_MILLIS
        # Other programs may produce in transactions: what they took back never happened.
        consumer._isolation_level = "read_committed"
        return consumer

    async def on_start(self) -> None:
        """aiokafka does not fetch from a broker for 0.1 s while records of it are not taken, and misses it when
        they are taken at once: one event in twenty was late by that."""
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        consumer._fetcher._prefetch_backoff = _REFETCH_SECONDS
        self._ask_only_when_wanted(consumer._fetcher)

    def _ask_only_when_wanted(self, fetcher: Any) -> None:
        """aiokafka asks for more as soon as records are taken. It would hold the interpreter's lock for that at the
        very moment when the app's thread wakes up for them: they were late by as much as all of our work takes."""
        wanted, ask = asyncio.Event(), fetcher._proc_fetch_request

        async def once_wanted(*request: Any) -> bool:
            try:
                await wanted.wait()
            except asyncio.CancelledError:
                return False  # as aiokafka has it: whoever cancels wants no answer any more
            return bool(await ask(*request))

        fetcher._proc_fetch_request = once_wanted
        self._wanted = wanted

    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109 (Faust's signature)
        """Asked in the app's loop, done in this thread: both ends of the way are compared."""
        asked_by = cast("BatchConsumer", self.consumer)
        asked = asked_by._epoch, self.app.consumer_generation_id
        return await self.call_thread(
            self._fetch, self._ensure_consumer(), active_partitions, timeout, *asked
        )

    async def _fetch(self, consumer: Any, active: Any, seconds: float, epoch: object, generation: int) -> Any:
        asked_by = cast("BatchConsumer", self.consumer)
        if epoch is not asked_by._epoch:
            return {}  # the question waited for a rebalance, and who asked it may be gone
        self._wanted.set()
        try:
            fetched = await self._fetch_records(consumer, active, seconds, consumer._max_poll_records)
        except UnicodeDecodeError:
            salvage: Salvage | None = getattr(self.app, "salvage", None)
            broken = _broken_fetch(consumer._fetcher)
            if salvage is None or broken is None or self.app.in_recovery:
                raise
            if not asked_by._positioned:
                return {}  # what was fetched is forgotten when positions are set, and fetched again
            tp, unreadable = broken
            read = self.consumer._read_offset
            first = read[tp]
            if first is None:
                raise
            records = await asyncio.to_thread(salvage, tp.topic, tp.partition, first, unreadable)
            # What the failed fetch had taken from other partitions is gone with it.
            for other in ensure_TPset(consumer.assignment()) - {tp}:
                position = read[other]
                if position is not None:
                    consumer.seek(other, position)
            consumer.seek(tp, records[-1].offset + 1)
            return Fetched({tp: records}, generation, epoch)
        if epoch is asked_by._epoch:
            if fetched:
                self._wanted.clear()
            return Fetched(fetched, generation, epoch)
        # A rebalance came and went meanwhile, and stopped whoever asked for these records: nobody would
        # ever hand them out. Taking them was the last thing that happened, so going back undoes just that.
        for partition, records in fetched.items():
            if records and partition in consumer.assignment():
                consumer.seek(partition, records[0].offset)
        return {}

    async def settle(self, expected: dict[TP, int], epoch: object) -> None:
        """Set every position once more, and from here on let fetches count.

        In this thread and without a pause, so that each fetch took its records either before, and is
        forgotten, or after. `epoch` is the seeking one's: a later rebalance sets positions of its own.
        """
        await self.call_thread(self._settle, expected, epoch)

    async def _settle(self, expected: dict[TP, int], epoch: object) -> None:
        asked_by = cast("BatchConsumer", self.consumer)
        consumer: Any = self._ensure_consumer()
        if asked_by._epoch is not epoch:
            return
        assigned = consumer.assignment()
        for tp, offset in expected.items():
            partition = driver.ensure_aiokafka_TP(tp)
            if partition in assigned:
                consumer.seek(partition, offset)
        asked_by._epoch = object()
        asked_by._positioned = True


def _broken_fetch(fetcher: Any) -> tuple[TP, int] | None:
    """The partition whose records ended in an error, and the offset at which they did."""
    for tp, fetched in fetcher._records.items():
        records: Any = getattr(fetched, "_partition_records", None)
        iterator = getattr(records, "_records_iterator", None)
        if iterator is not None and inspect.getgeneratorstate(iterator) == inspect.GEN_CLOSED:
            return ensure_TP(tp), records.next_fetch_offset
    return None


class BatchConsumer(driver.Consumer):
    """Faust's aiokafka consumer with one queue item and one ack for each (partition, fetch)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._room = asyncio.Event()
        self.ledger: Ledger[TP] = Ledger(on_finish=self._room.set)
        self._positioned = False
        """Whether the positions of this assignment are set: before that, and across it, a fetch means nothing."""
        self._epoch = object()
        """Another one whenever partitions or positions change: a fetch of an earlier one is not handed out."""

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # -- offsets ----------------------------------------------------------------------------------------

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        # What Faust itself noted of acks is not asked: it acks failed and cancelled batches too.
        self._acked.clear()
        self._acked_index.clear()
        return (tp for tp in self.ledger.partitions() if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        return self.ledger.committable(tp)

    def _unsettle(self) -> None:
        self._positioned = False
        self._epoch = object()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self._unsettle()
        # Faust waits in here for the batch at work and commits; only then are the others forgotten.
        await super().on_partitions_revoked(revoked)
        for tp in revoked:
            self.ledger.forget(tp)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        # Everything assigned is read again from its committed offset.
        self._unsettle()
        self.ledger.clear()
        await super().on_partitions_assigned(assigned, generation_id)

    async def perform_seek(self) -> None:
        """Before events flow again: read each partition from its committed offset, or from its beginning.

        Faust leaves partitions without a commit where they are, which may be behind records that were
        fetched and then dropped by the rebalance.
        """
        self._unsettle()
        epoch = self._epoch
        self.ledger.clear()
        await super().perform_seek()
        unread = [
            tp
            for tp in self.assignment()
            if self.app.topics.acks_enabled_for(tp.topic) and not self._read_offset[tp]
        ]
        # Asked of the broker: the consumer's own position moves with every fetch under way.
        self._read_offset.update(await self._thread.earliest_offsets(*unread) if unread else {})
        expected = {
            tp: self._read_offset[tp] or 0
            for tp in self.assignment()
            if self.app.topics.acks_enabled_for(tp.topic)
        }
        await cast(BatchConsumerThread, self._thread).settle(expected, epoch)

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        """Where changelogs end: what recovery has read before anything is decided. Not by asking alone: a broker
        that was paused tells an old end when it wakes up."""
        barrier: Barrier | None = getattr(self.app, "barrier", None)
        if barrier is None or not partitions:
            return await super().highwaters(*partitions)
        ends = await asyncio.to_thread(barrier, [(tp.topic, tp.partition) for tp in partitions])
        return {TP(topic, number): end for (topic, number), end in ends.items()}

    # -- from fetch to agent ----------------------------------------------------------------------------

    async def _drain_messages(self, fetcher: Any) -> None:
        try:
            while not (self._stopped.is_set() or fetcher._stopped.is_set()):
                # aiokafka answers at once while it has records: let the others run.
                await asyncio.sleep(0)
                await self._drain_once()
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.transport.app.should_stop:
                raise

    async def _drain_once(self) -> None:
        fetched, active = await self._wait_next_records(1.0)
        if not isinstance(fetched, Fetched):
            return  # nothing, or undone
        dropped: dict[TP, Records] = {}
        for partition, records in fetched.items():
            tp = ensure_TP(partition)
            if records and not await self._deliver(tp, records, active, fetched.generation, fetched.epoch):
                dropped[tp] = records
        if dropped:
            self._read_again(dropped, fetched.generation)

    def stop_flow(self) -> None:
        super().stop_flow()
        self._room.set()

    async def _deliver(
        self, tp: TP, records: Records, active: set[TP] | None, generation: int, epoch: object
    ) -> bool:
        """Hand records out as one batch, once there is room. False: they were not, and must not be."""
        app: Any = self.app
        acked = app.topics.acks_enabled_for(tp.topic)
        while acked and self.flow_active and self._far_ahead():
            self._room.clear()
            await self._room.wait()
        # Faust's queue tells nobody when it has room.
        while not acked and self.flow_active and app.tables.changelog_queue.qsize() >= MAX_AHEAD:  # noqa: ASYNC110
            await asyncio.sleep(_RECOVERY_PAUSE_SECONDS)
        # From here to the queue nothing awaits: a rebalance cannot come between. Until one is over, Faust
        # may empty the agent's queue: what it throws away would be lost to us.
        channels = app.topics._tp_index.get(tp)
        if (
            not channels
            or not self.flow_active
            or generation != app.consumer_generation_id
            # Until the rebalance is over Faust empties its queues once more.
            or (acked and (app.rebalancing or not self._positioned or epoch is not self._epoch))
            or (active is not None and tp not in active)
        ):
            return False
        records = self._unread(tp, records)
        if not records:
            return True
        last = records[-1].offset
        message = ConsumerMessage(
            tp.topic, tp.partition, last, time.time(), 0, None, None, None, None, 0, 0, tp,
            generation_id=generation,
        )  # fmt: skip
        message.incref(len(channels))
        batch = Batch(tp, records, last)
        if acked:
            self.ledger.add(batch)
        for channel in channels:
            channel.queue.force_put_nowait(Event(app, None, batch, None, message))
        self._read_offset[tp] = last + 1
        return True

    def _far_ahead(self) -> bool:
        ledger = self.ledger
        most = MAX_SMALL_AHEAD if ledger.unfinished_records < FEW_RECORDS else MAX_AHEAD
        return ledger.unfinished >= most

    def _unread(self, tp: TP, records: Records) -> Records:
        """Without what was handed out already: a seek may bring it again within a generation."""
        expected = self._read_offset[tp]
        if expected is None or records[0].offset >= expected:
            return records
        return [record for record in records if record.offset >= expected]

    def _read_again(self, dropped: dict[TP, Records], generation: int) -> None:
        """Fetched and not handed out: go back, unless `perform_seek` is still to come.

        A fetch may outlast a whole rebalance. Whether its records lie before or behind the positions that
        were set meanwhile cannot be told from them, so events are read from what is expected next. Of a
        changelog Faust's recovery sets the position itself in every generation.
        """
        assigned = self.assignment()
        for tp, records in dropped.items():
            if tp not in assigned:
                continue
            if self.app.topics.acks_enabled_for(tp.topic):
                if self._positioned:
                    self._thread.seek(tp, self._read_offset[tp] or 0)
            elif generation == self.app.consumer_generation_id and not self.app.rebalancing:
                self._thread.seek(tp, records[0].offset)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's own stall warnings count single events; the processor's watchdog counts progress."""


class BatchTransport(driver.Transport):
    """What `Faust(broker="headgate+batch://...")` loads."""

    Consumer = BatchConsumer
    default_port = 9092


def register() -> None:
    """Make the scheme known to Faust."""
    TRANSPORTS.aliases[SCHEME] = f"{BatchTransport.__module__}:{BatchTransport.__qualname__}"
