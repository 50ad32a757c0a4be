"""The promises of a 202, on a real broker and registry, with the service as the process it is."""

import asyncio
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka import Producer as RdProducer

from headgate.common import deadletter
from headgate.common.embedded.kafka import Kafka
from headgate.common.embedded.ports import free
from headgate.common.embedded.process import Process
from headgate.common.embedded.registry import SchemaRegistry
from headgate.common.fingerprints import partition_of
from headgate.common.headers import text
from headgate.common.model import Source, Stored
from headgate.common.registry import Codec, Registry
from headgate.common.settings import KafkaSettings, RegistrySettings
from headgate.common.testing.cluster import Stack
from headgate.common.topicadmin import TopicAdmin
from headgate.common.topics import Topics

pytestmark = pytest.mark.kafka

SECRET = "canary-7d1f"
BODY = b'{"action":"opened","repository":{"full_name":"octo/hello"}}'


@dataclass
class Service:
    """`python -m headgate.ingest_webhook` as a child, and its addresses."""

    child: Process
    port: int
    health_port: int
    http: aiohttp.ClientSession

    async def post(
        self, delivery: str, body: bytes = BODY, path: str = "github/repo"
    ) -> tuple[int, dict[str, Any]]:
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": delivery,
            "X-Hub-Signature-256": f"sha256={signature}",
        }
        url = f"http://127.0.0.1:{self.port}/webhooks/{path}"
        async with self.http.post(url, data=body, headers=headers) as answer:
            assert answer.status != 503 or answer.headers["Retry-After"]
            return answer.status, await answer.json()

    async def ready(self) -> tuple[bool, str]:
        try:
            async with self.http.get(f"http://127.0.0.1:{self.health_port}/readyz") as answer:
                return answer.status == 200, await answer.text()
        except aiohttp.ClientConnectionError:
            return False, "not listening"

    async def until_ready(self) -> None:
        await eventually(self._is_ready, "the service is ready", self.child)

    async def _is_ready(self) -> bool:
        assert self.child.running, self.child.tail(40)
        return (await self.ready())[0]

    def memory_mib(self) -> float:
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576


async def eventually(
    check: Callable[[], Any], what: str, child: Process | None = None, seconds: float = 40
) -> None:
    deadline = time.monotonic() + seconds
    while not await check():
        if time.monotonic() > deadline:
            pytest.fail(f"in {seconds} s it never came true that {what}: {child and child.tail(40)}")
        await asyncio.sleep(0.05)


@asynccontextmanager
async def running(stack: Stack, tmp_path: Path, **more: str) -> AsyncIterator[Service]:
    port, health_port = free(2)
    child = Process(
        "ingest",
        [sys.executable, "-m", "headgate.ingest_webhook"],
        log=tmp_path / f"ingest-{port}.log",
        env={
            **stack.env(webhook_port=str(port), health_port=str(health_port)),
            "GITHUB_SECRET": SECRET,
            **more,
        },
    )
    child.start()
    connector = aiohttp.TCPConnector(limit=250)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30)) as http:
        try:
            yield Service(child, port, health_port, http)
        finally:
            child.kill()


@contextmanager
def codec_of(stack: Stack) -> Iterator[Codec]:
    with closing(Registry(stack.registry, stack.state_dir / "schemas.json")) as registry:
        yield Codec(registry, stack.topics)


def write_source(stack: Stack, name: str = "repo", *, gone: bool = False, **config: Any) -> None:
    spec = Source(
        metadata={"name": name},
        provider="github-webhook",
        config={"secrets": [{"env": "GITHUB_SECRET"}], **config},
    )
    with codec_of(stack) as codec:
        value = codec.encode("SourceRecord", Stored(name, "u", 1, 0, "test", spec).record())
    producer = RdProducer(stack.kafka.librdkafka())
    producer.produce(stack.topics.sources, key=name, value=None if gone else value)
    assert producer.flush(20) == 0


def everything_in(stack: Stack, topic: str) -> list[Message]:
    """All records of a topic, up to the ends it has now."""
    consumer = Consumer({**stack.kafka.librdkafka(), "group.id": "test", "enable.auto.commit": False})
    found: list[Message] = []
    try:
        for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
            consumer.assign([TopicPartition(topic, number, low)])
            wanted = len(found) + high - low
            while len(found) < wanted:
                message = consumer.poll(20)
                assert message is not None
                assert message.error() is None
                found.append(message)
    finally:
        consumer.close()
    return found


def headers_of(message: Message) -> list[tuple[str, Any]]:
    found = message.headers() or []
    return list(found.items() if isinstance(found, dict) else found)


def ids_in(stack: Stack, topic: str) -> set[str]:
    return {text(headers_of(message), "ce_id") or "" for message in everything_in(stack, topic)}


async def test_a_202_means_that_the_event_is_on_the_topic(stack: Stack, tmp_path: Path) -> None:
    write_source(stack)
    async with running(stack, tmp_path) as service:
        await service.until_ready()
        status, words = await service.post("d-1")
        (message,) = everything_in(stack, stack.topics.raw)
        assert (status, words) == (202, {"event_id": text(headers_of(message), "ce_id")})
        assert message.key() == b"github/repo:d-1"
        assert message.partition() == partition_of(b"github/repo:d-1", 6)
        with codec_of(stack) as codec:
            event = codec.decode("RawEvent", message.value() or b"")
        assert (event["id"], event["type"], event["source"]) == (words["event_id"], "issues.opened", "repo")
        assert event["data"] == BODY.decode()
        assert event["attributes"]["x-github-event"] == "issues"
        assert SECRET not in json.dumps(event, default=str) + "".join(service.child.tail(1000))


async def test_a_thousand_repeats_at_once_are_all_accepted_and_share_one_fingerprint(
    stack: Stack, tmp_path: Path
) -> None:
    write_source(stack)
    async with running(stack, tmp_path) as one, running(stack, tmp_path) as other:
        await one.until_ready()
        await other.until_ready()
        answers = await asyncio.gather(*((one, other)[number % 2].post("same") for number in range(1000)))
        assert {status for status, _ in answers} == {202}
        records = everything_in(stack, stack.topics.raw)
        assert {text(headers_of(message), "ce_id") for message in records} == {
            words["event_id"] for _, words in answers
        }
        assert {(message.key(), message.partition()) for message in records} == {
            (b"github/repo:same", partition_of(b"github/repo:same", 6))
        }
        status, words = await one.post("same")
        assert (status, words["duplicate"]) == (202, True)


async def test_broken_json_of_an_authentic_sender_is_kept_with_the_reason(
    stack: Stack, tmp_path: Path
) -> None:
    write_source(stack)
    async with running(stack, tmp_path) as service:
        await service.until_ready()
        status, words = await service.post("d-2", b'{"a": \xff')
        (letter,) = everything_in(stack, stack.topics.dlq)
        reason = deadletter.read(headers_of(letter))
        assert (status, words["event_id"]) == (202, reason.event_id)
        assert letter.value() == b'{"a": \xff'
        assert (reason.stage, reason.code, reason.topic) == ("ingest", "unreadable", stack.topics.raw)
        assert letter.key() == reason.fingerprint.encode()
        assert "not JSON" in reason.message
        assert text(headers_of(letter), "x-github-delivery") == "d-2"
        assert everything_in(stack, stack.topics.raw) == []


async def test_sources_come_and_go_without_a_restart(stack: Stack, tmp_path: Path) -> None:
    async with running(stack, tmp_path) as service:
        await service.until_ready()
        assert (await service.post("d-1"))[0] == 404
        write_source(stack)
        await eventually(lambda: answers(service, 202), "the new source answers", service.child)
        write_source(stack, gone=True)
        await eventually(lambda: answers(service, 404), "the deleted source is gone", service.child)


async def answers(service: Service, status: int) -> bool:
    return (await service.post("probe"))[0] == status


@pytest.mark.parametrize("point", ["ingest.produced-before-ack", "ingest.acked-before-reply"])
async def test_a_crash_before_the_answer_is_no_2xx(point: str, stack: Stack, tmp_path: Path) -> None:
    write_source(stack)
    async with running(stack, tmp_path, FAILPOINT=f"{point}:3") as service:
        await service.until_ready()
        accepted = [(await service.post(f"d-{number}"))[1]["event_id"] for number in range(2)]
        with pytest.raises(aiohttp.ClientConnectionError):
            await service.post("d-3")
        assert service.child.wait(20)
        assert service.child.exit_code == 137
        stored = ids_in(stack, stack.topics.raw)
        assert set(accepted) <= stored
        assert len(stored) == (3 if point == "ingest.acked-before-reply" else len(stored))


async def test_sigterm_answers_what_is_in_flight_and_then_exits_cleanly(stack: Stack, tmp_path: Path) -> None:
    write_source(stack)
    async with running(stack, tmp_path) as service:
        await service.until_ready()
        accepted: list[str] = []
        refused: list[int] = []

        async def sender(name: int) -> None:
            for number in range(10_000):
                try:
                    status, words = await service.post(f"{name}-{number}")
                except aiohttp.ClientError:
                    return
                (accepted.append(words["event_id"]) if status == 202 else refused.append(status))

        senders = [asyncio.create_task(sender(name)) for name in range(20)]
        await eventually(lambda: asyncio.sleep(0, len(accepted) > 200), "deliveries flow")
        service.child.terminate()
        await asyncio.gather(*senders)
        assert await asyncio.to_thread(service.child.wait, 30)
        assert service.child.exit_code == 0, service.child.tail(40)
        assert refused == []
        assert set(accepted) <= ids_in(stack, stack.topics.raw)


@contextmanager
def own_servers(tmp_path: Path) -> Iterator[tuple[Kafka, SchemaRegistry, Stack]]:
    """A broker and a registry that a test may stop."""
    with ExitStack() as servers:
        kafka = servers.enter_context(Kafka(tmp_path / "kafka"))
        registry = servers.enter_context(SchemaRegistry(tmp_path / "registry"))
        topics = Topics("own")
        settings = KafkaSettings(bootstrap=kafka.bootstrap, prefix="own")
        stack = Stack(
            settings, RegistrySettings(url=registry.url, timeout_seconds=15), topics, tmp_path / "state"
        )
        TopicAdmin(settings).apply(topics)
        with closing(Registry(stack.registry, stack.state_dir / "schemas.json")) as client:
            client.install(topics)
        yield kafka, registry, stack


async def test_without_a_registry_and_then_without_a_broker_nothing_is_promised_that_is_not_kept(
    tmp_path: Path,
) -> None:
    with own_servers(tmp_path) as (kafka, registry, stack):
        write_source(stack, deadline_seconds=1.0)
        async with running(stack, tmp_path) as service:
            await service.until_ready()
            registry.stop()
            accepted = [(await service.post("no-registry"))[1]["event_id"]]
            async with running(stack, tmp_path) as fresh:  # the ids are on disk: a restart needs no registry
                await fresh.until_ready()
                accepted.append((await fresh.post("no-registry-after-restart"))[1]["event_id"])

            before = service.memory_mib()
            await asyncio.to_thread(kafka.stop)
            flood = await storm(service, "away", 3000)
            assert 202 not in flood
            assert set(flood) <= {503}
            assert service.memory_mib() < before + 80
            assert (await service.post("nobody", path="github/nobody"))[0] in (404, 503)
            await eventually(lambda: says(service, "kafka"), "readiness names Kafka", service.child)
            assert (await service.post("nobody", path="github/nobody"))[0] == 503

            await asyncio.to_thread(kafka.start)
            await asyncio.to_thread(kafka.wait_ready)
            await service.until_ready()
            await eventually(lambda: answers(service, 202), "deliveries are accepted again", service.child)
            accepted.append((await service.post("back"))[1]["event_id"])
        assert set(accepted) <= ids_in(stack, stack.topics.raw)


async def storm(service: Service, name: str, many: int) -> list[int]:
    """Deliveries of 10 kB from 200 senders at once; the statuses they got."""
    body = json.dumps({"pad": "x" * 10_000}).encode()
    return [
        status
        for status, _ in await asyncio.gather(
            *(service.post(f"{name}-{number}", body) for number in range(many))
        )
    ]


async def says(service: Service, part: str) -> bool:
    ready, reason = await service.ready()
    return not ready and part in reason
