"""What the batch transport assumes of Faust 0.15.3, held against the real one and a real Kafka."""

from __future__ import annotations

import asyncio
import gc
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import faust
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from faust.transport.consumer import Consumer as BaseConsumer
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from headgate.common.settings import KafkaSettings
from headgate.common.topics import Topics
from headgate.processor.batching import SCHEME, Batch
from headgate.processor.batching.transport import MAX_SMALL_AHEAD, BatchConsumerThread, register
from headgate.processor.cluster import Cluster
from headgate.processor.store import Storage
from headgate.processor.worker import fingerprint_table

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    # Faust leaves its aiokafka connections and a thread's loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


class World:
    """A topic of one partition, a group, and apps that read it."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap, self.directory = bootstrap, directory
        self.name = f"c{uuid.uuid4().hex[:10]}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.admin.create_topics([NewTopic(self.name, 1, 1)])[self.name].result(20)
        self.apps: list[faust.App] = []

    def publish(self, first: int, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(first, first + count):
            producer.produce(self.name, str(number).encode(), partition=0)
        assert producer.flush(30) == 0

    async def start(
        self,
        work: Callable[[Batch[Any]], Any],
        also: Callable[[faust.App], Any] = lambda app: None,
        **settings: Any,
    ) -> tuple[faust.App, Any]:
        register()
        app = faust.App(
            self.name,
            broker=f"{SCHEME}://{self.bootstrap}",
            store="memory://",
            datadir=str(self.directory / str(len(self.apps))),
            web_enabled=False,
            autodiscover=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            broker_max_poll_records=10,
            broker_session_timeout=6,
            broker_heartbeat_interval=1,
            broker_commit_interval=0.2,
            stream_recovery_delay=0,
            **settings,
        )

        @app.agent(app.topic(self.name, value_serializer="raw"), name="agent")
        async def agent(stream: Any) -> None:
            async for batch in stream:
                await work(batch)

        also(app)
        app.finalize()
        self.apps.append(app)
        await app.start()
        return app, agent

    async def committed(self) -> int:
        def ask() -> Any:
            group = ConsumerGroupTopicPartitions(self.name)
            found = self.admin.list_consumer_group_offsets([group])[self.name].result(20).topic_partitions
            return max([0, *(one.offset for one in found)])

        return int(await asyncio.to_thread(ask))

    async def until(self, what: str, condition: Callable[[], Any], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"waited {seconds:.0f} s in vain until {what}")

    async def until_committed(self, offset: int) -> None:
        async def there() -> bool:
            return await self.committed() == offset

        await self.until(f"offset {offset} is committed", there)


class Table:
    """A fingerprint table with entries in its changelog, recovered as the processor recovers its own."""

    def __init__(self, world: World, entries: int) -> None:
        self.entries = entries
        self._topics, self._bootstrap = Topics(prefix=world.name, partitions=1), world.bootstrap
        changelog = self._topics.fingerprints_changelog
        world.admin.create_topics([NewTopic(changelog, 1, 1)])[changelog].result(20)
        producer = Producer({"bootstrap.servers": world.bootstrap})
        for number in range(entries):
            producer.produce(changelog, b"value", str(number).encode())
        assert producer.flush(30) == 0

    def add(self, app: Any) -> None:
        storage = Storage(
            directory=None, incarnation="x", end_offsets=lambda _: {0: self.entries}, crash=pytest.fail
        )
        self._data = fingerprint_table(app, self._topics, storage)
        app.barrier = Cluster(KafkaSettings(bootstrap=self._bootstrap)).barrier

    @property
    def size(self) -> int:
        return self._data.size()


@pytest.fixture(autouse=True)
def what_is_left_is_collected_here() -> Iterator[None]:
    """Before another test, which ignores no warnings, is the one that meets it."""
    yield
    gc.collect()


@pytest.fixture
async def world(kafka: str, tmp_path: Path) -> AsyncIterator[World]:
    made = World(kafka, tmp_path)
    yield made
    for app in made.apps:
        if app.started and not app.should_stop:
            await asyncio.wait_for(app.stop(), 30)
    made.apps.clear()


def values(batch: Batch[Any]) -> list[int]:
    return [int(record.value) for record in batch.records]


def test_the_pinned_faust_still_has_what_is_overridden() -> None:
    assert faust.__version__ == "0.15.3"
    for name in (
        "_filter_tps_with_pending_acks", "_new_offset", "_drain_messages", "_wait_next_records", "perform_seek",
        "on_partitions_assigned", "on_partitions_revoked", "stop_flow", "verify_event_path",
    ):  # fmt: skip
        assert callable(getattr(BaseConsumer, name)), name
    for name in ("seek", "seek_to_beginning", "getmany"):
        assert callable(getattr(AIOKafkaConsumerThread, name)), name


async def test_records_come_in_batches_in_order_and_finished_ones_are_committed(world: World) -> None:
    got: list[list[int]] = []

    async def work(batch: Batch[Any]) -> None:
        got.append(values(batch))
        batch.finish()

    world.publish(0, 95)
    await world.start(work)
    await world.until_committed(95)
    assert [number for batch in got for number in batch] == list(range(95))
    assert max(len(batch) for batch in got) == 10


async def test_a_batch_that_raised_is_not_committed_nor_is_anything_behind_it(world: World) -> None:
    broken = True
    done: list[int] = []

    async def work(batch: Batch[Any]) -> None:
        numbers = values(batch)
        if broken and 25 in numbers:
            raise RuntimeError("planted")
        batch.finish()
        done.extend(numbers)

    world.publish(0, 60)
    app, _ = await world.start(work)
    await world.until("the batches behind it are done", lambda: 59 in done)
    await world.until_committed(20)
    await app.stop()
    assert await world.committed() == 20
    broken = False
    done.clear()
    await world.start(work)
    await world.until_committed(60)
    assert done == list(range(20, 60))


async def test_a_batch_whose_task_is_cancelled_is_not_committed(world: World) -> None:
    reached = asyncio.Event()
    done: list[int] = []

    async def work(batch: Batch[Any]) -> None:
        numbers = values(batch)
        if 25 in numbers and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        batch.finish()
        done.extend(numbers)

    world.publish(0, 40)
    app, agent = await world.start(work)
    await asyncio.wait_for(reached.wait(), 60)
    for actor in list(agent._actors):
        actor.actor_task.cancel()
    await world.until("the batch behind it is done", lambda: 39 in done)
    await world.until_committed(20)
    await app.stop()
    assert await world.committed() == 20


async def test_a_slow_agent_holds_a_bounded_number_of_batches(world: World) -> None:
    go = asyncio.Event()
    done: list[int] = []

    async def work(batch: Batch[Any]) -> None:
        await go.wait()
        done.extend(values(batch))
        batch.finish()

    world.publish(0, 500)
    app, _ = await world.start(work)
    consumer: Any = app.consumer
    await world.until("it is full", lambda: consumer.ledger.unfinished >= MAX_SMALL_AHEAD)
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert consumer.ledger.unfinished <= MAX_SMALL_AHEAD
    go.set()
    await world.until_committed(500)
    assert done == list(range(500))


async def test_busy_partitions_are_fetched_again_soon_and_idle_ones_hold_nothing_up(world: World) -> None:
    async def work(batch: Batch[Any]) -> None:
        batch.finish()

    world.publish(0, 1)
    app, _ = await world.start(work)
    await world.until_committed(1)
    consumer: Any = app.consumer
    fetcher = consumer._thread._consumer._fetcher
    assert fetcher._fetch_max_wait_ms == 100
    assert fetcher._prefetch_backoff == 0.005


async def test_no_fetch_is_prepared_while_the_app_works_on_records_and_the_next_comes_when_it_asks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches: list[object] = []
    meanwhile: list[int] = []
    send = AIOKafkaClient.send

    async def noted(client: AIOKafkaClient, node: int, request: Any, **more: Any) -> Any:
        if isinstance(request, FetchRequest):
            fetches.append(request)
        return await send(client, node, request, **more)

    monkeypatch.setattr(AIOKafkaClient, "send", noted)

    async def work(batch: Batch[Any]) -> None:
        before = len(fetches)
        time.sleep(0.05)  # noqa: ASYNC251 - work that leaves neither the thread nor the loop to others
        meanwhile.append(len(fetches) - before)
        batch.finish()

    world.publish(0, 1)
    await world.start(work)
    await world.until_committed(1)
    for number in range(1, 6):
        world.publish(number, 1)
        await world.until_committed(number + 1)
    assert meanwhile == [0] * 6
    assert len(fetches) > 6


async def test_a_second_member_takes_over_half_way_and_nothing_is_skipped(world: World) -> None:
    """The topic has one partition: whoever holds it, every record is finished by someone."""
    done: list[int] = []

    async def work(batch: Batch[Any]) -> None:
        await asyncio.sleep(0.01)
        done.extend(values(batch))
        batch.finish()

    world.publish(0, 300)
    first, _ = await world.start(work)
    await world.until("it has begun", lambda: len(done) > 50)
    await world.start(work)
    await world.until("it is a good way on", lambda: len(set(done)) > 150)
    await first.stop()
    await world.until_committed(300)
    assert set(done) == set(range(300))


async def test_a_question_that_waited_for_a_rebalance_takes_nothing_of_a_changelog(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records would belong to a generation that is gone, and recovery would wait for them for ever."""
    table = Table(world, entries=25)

    asked: list[asyncio.Event] = []
    answers: list[Any] = []
    fetch = BatchConsumerThread._fetch

    async def late(thread: Any, *question: Any) -> Any:
        """The consumer's thread has other work when it is asked, until it is told to go on."""
        if not thread.app.in_recovery or asked:
            return await fetch(thread, *question)
        asked.append(asyncio.Event())
        await asked[-1].wait()
        answers.append(await fetch(thread, *question))
        return answers[-1]

    monkeypatch.setattr(BatchConsumerThread, "_fetch", late)

    async def work(batch: Batch[Any]) -> None:
        batch.finish()

    starting = asyncio.create_task(world.start(work, table.add))
    await world.until("recovery asks", lambda: asked)
    (app,) = world.apps
    consumer: Any = app.consumer
    thread = consumer._thread

    def in_thread(action: Callable[[], Any]) -> None:
        thread.thread_loop.call_soon_threadsafe(action)

    generation = app.consumer_generation_id
    in_thread(thread._consumer._coordinator.request_rejoin)
    await world.until("there was a rebalance", lambda: app.consumer_generation_id > generation)
    recovery = app.tables.recovery
    await world.until(
        "recovery goes on in its generation",
        lambda: recovery._generation_id > generation and consumer.flow_active and recovery.in_recovery,
    )
    in_thread(asked[0].set)
    await world.until("an answer was given", lambda: answers)
    await world.until("the table is whole", lambda: not app.in_recovery and table.size == table.entries, 30)
    await starting


async def test_recovery_reads_past_the_old_end_that_a_broker_tells_when_it_wakes_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was paused still takes itself for the leader, and knows nothing of what others stored."""
    table = Table(world, entries=25)

    async def old_ends(thread: Any, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, 0)

    monkeypatch.setattr(AIOKafkaConsumerThread, "_highwaters", old_ends)
    at_work: list[int] = []

    async def work(batch: Batch[Any]) -> None:
        at_work.append(table.size)
        batch.finish()

    world.publish(0, 1)
    await world.start(work, table.add)
    await world.until_committed(1)
    assert at_work == [table.entries]
