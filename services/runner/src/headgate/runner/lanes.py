"""Records in hand, by partition and key.

A lane is a partition that is ours. Records of one key are handled one after another; keys side by side.
Taking is bounded: a lane that holds enough is paused and resumed at half. All of this lives on the
event loop; the thread that talks to Kafka only hands over.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headgate.runner.lowwater import LowWater
from headgate.runner.settings import RunnerOptions

Key = bytes | int
"""The record's key; records without one are ordered by nothing and go by their offset."""

RawHeaders = list[tuple[str, bytes | str | None]]


@dataclass(slots=True)
class Job:
    """One matched record, and where it came from."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    lane: Lane = field(repr=False)
    taken_at: float = field(default_factory=time.monotonic)

    @property
    def lane_key(self) -> Key:
        return self.offset if self.key is None else self.key

    @property
    def size(self) -> int:
        return len(self.value or b"") + sum(len(value or b"") for _, value in self.headers) + 500


class Worker:
    """Handles the records of one key while there are any."""

    __slots__ = ("idle", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.idle = False
        """Waiting for its turn or for time to pass: nothing is lost when it ends here."""


class Lane:
    """One partition of ours, from assignment to revocation."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.water = LowWater()
        self.queues: dict[Key, deque[Job]] = {}
        self.workers: dict[Key, Worker] = {}
        self.bytes = 0
        self.held = 0
        self.paused = False
        self.closed = False
        self.waiting_for_slot = 0
        self.moved_at = self.taken_at = time.monotonic()

    def moved(self) -> None:
        """Something happened to a record: an attempt, an answer, an end."""
        self.moved_at = time.monotonic()

    @contextmanager
    def idle(self, job: Job) -> Iterator[None]:
        """While waiting: revocation and shutdown may end the worker at once."""
        worker = self.workers.get(job.lane_key)
        if worker is None:
            yield
            return
        if self.closed:
            raise asyncio.CancelledError
        worker.idle = True
        try:
            yield
        finally:
            worker.idle = False


class Lanes:
    """All partitions of ours. `handle` does one record for good; what it raises ends the process."""

    def __init__(
        self,
        options: RunnerOptions,
        handle: Callable[[Job], Awaitable[None]],
        *,
        pause: Callable[[int], None],
        resume: Callable[[int], None],
        commit: Callable[[int, int], None],
    ) -> None:
        self._options = options
        self._handle = handle
        self._pause = pause
        self._resume = resume
        self._commit = commit
        self.lanes: dict[int, Lane] = {}
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception of a record that could neither be handled nor dead-lettered."""

    def assign(self, partitions: list[int]) -> None:
        for number in partitions:
            self.lanes[number] = Lane(number)

    def take(self, job: Job) -> None:
        """Queue a record behind those of its key. Ignores one that was taken before."""
        lane = job.lane
        if lane.closed or not lane.water.take(job.offset):
            return
        lane.held += 1
        lane.bytes += job.size
        if not lane.workers:
            lane.moved()
        lane.taken_at = time.monotonic()
        queue = lane.queues.get(job.lane_key)
        if queue is not None:
            queue.append(job)
        else:
            lane.queues[job.lane_key] = deque([job])
            worker = lane.workers[job.lane_key] = Worker()
            worker.task = asyncio.create_task(self._work(lane, job.lane_key))
        if not lane.paused and self._is_full(lane):
            lane.paused = True
            self._pause(lane.partition)

    async def release(self, partitions: list[int], grace_seconds: float) -> dict[int, int]:
        """Let lanes go: start nothing more, let calls in flight finish for a while, and say what may be
        committed. Whatever is not finished will be read again, by us or by whoever gets the partition."""
        going = [self.lanes.pop(number) for number in partitions if number in self.lanes]
        for lane in going:
            lane.closed = True
        tasks = set()
        for worker in (worker for lane in going for worker in lane.workers.values()):
            if worker.task is not None:
                tasks.add(worker.task)
                if worker.idle:
                    worker.task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1)
        return {lane.partition: lane.water.mark for lane in going if lane.water.mark is not None}

    def commit_again(self) -> None:
        """Ask once more for the commit of every mark: one was refused, and no record may ever come that moves it."""
        for lane in self.lanes.values():
            if lane.water.mark is not None:
                self._commit(lane.partition, lane.water.mark)

    @property
    def held(self) -> int:
        return sum(lane.held for lane in self.lanes.values())

    async def _work(self, lane: Lane, key: Key) -> None:
        queue = lane.queues[key]
        try:
            while queue and not lane.closed:
                job = queue[0]
                await self._handle(job)
                queue.popleft()
                self._finish(lane, job)
        except Exception as problem:
            if not self.failed.done():
                self.failed.set_exception(problem)
        finally:
            del lane.queues[key], lane.workers[key]

    def _finish(self, lane: Lane, job: Job) -> None:
        before = lane.water.mark
        lane.water.finish(job.offset)
        mark = lane.water.mark
        if mark is not None and mark != before and not lane.closed:
            self._commit(lane.partition, mark)
        lane.held -= 1
        lane.bytes -= job.size
        lane.moved()
        if lane.paused and not lane.closed and self._has_room(lane):
            lane.paused = False
            self._resume(lane.partition)

    def _is_full(self, lane: Lane) -> bool:
        options = self._options
        return (
            lane.held >= options.held_per_partition
            or lane.bytes >= options.held_bytes_per_partition
            or lane.water.span >= 8 * options.held_per_partition
        )

    def _has_room(self, lane: Lane) -> bool:
        options = self._options
        return (
            lane.held <= options.held_per_partition // 2
            and lane.bytes <= options.held_bytes_per_partition // 2
            and lane.water.span <= 4 * options.held_per_partition
        )
