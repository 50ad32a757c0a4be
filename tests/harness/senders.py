"""How events come in: signed webhooks by HTTP, and records of other programs straight to Kafka.

A sender notes `invoke` before it sends and what it was answered after; it decides nothing about what that means.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import aiohttp
from confluent_kafka import KafkaError, Message, Producer
from tests.harness.foreign import Foreign, foreign_fingerprint, foreign_record
from tests.harness.history import History, Type
from tests.harness.plan import Door, Plan, Planned, Poison, token
from tests.harness.provider import Provider, fingerprint_of_item

GITHUB_SECRET = "It's a Secret to Everybody"
GENERIC_SECRET = "another-secret-of-the-harness"
SECRETS = {"CHAOS_GITHUB_SECRET": GITHUB_SECRET, "CHAOS_GENERIC_SECRET": GENERIC_SECRET}
RETRIES = 6
RETRY_SECONDS = 0.5


def data_of(seed: int, event: Planned) -> dict[str, Any]:
    """The payload. The condition wants `grade > 2`; a grade that is a word breaks it; `refuse` is for the engine."""
    grade: int | str = 1 if event.kind == "filtered" else 5
    if event.poison is Poison.CONDITION:
        grade = "high"
    return {
        "token": token(seed, event.origin),
        "grade": grade,
        "refuse": event.poison is Poison.ENGINE,
        "subject": f"s{event.subject}",
        "number": event.origin,
    }


def body_of(seed: int, event: Planned) -> bytes:
    text = json.dumps(data_of(seed, event)).encode()
    return text[:-1] if event.poison is Poison.NOT_JSON else text


def sign(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def delivery(seed: int, event: Planned) -> tuple[str, dict[str, str], bytes]:
    """Path, headers and body of a webhook."""
    body, mark = body_of(seed, event), token(seed, event.origin)
    kind = {"Content-Type": "application/json"}
    if event.door is Door.GITHUB:
        own = {
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": mark,
            "X-Hub-Signature-256": sign(GITHUB_SECRET, body),
        }
        return "/webhooks/github/gh", kind | own, body
    own = {"X-Event-Id": mark, "X-Signature": sign(GENERIC_SECRET, body)}
    return "/webhooks/generic/plain", kind | own, body


def meaning(status: int) -> Type:
    """What an HTTP answer promises."""
    if 200 <= status < 300:
        return "ok"
    return "info" if status >= 500 or status == 429 else "fail"


class Webhooks:
    """Posts deliveries to any of the ingest processes; again, like a provider, when it was told 503 or nothing."""

    def __init__(self, bases: Sequence[str], history: History, session: aiohttp.ClientSession) -> None:
        self._bases = list(bases)
        self._history = history
        self._session = session

    async def send(self, plan: Plan, event: Planned) -> None:
        path, headers, body = delivery(plan.seed, event)
        dice = random.Random(f"{plan.seed}/{event.seq}/base")
        for attempt in itertools.count(1):
            answer = await self.post(event.seq, dice.choice(self._bases) + path, headers, body)
            if answer != "info" or attempt == RETRIES:
                return
            await asyncio.sleep(RETRY_SECONDS * attempt)

    async def post(self, seq: int | None, url: str, headers: dict[str, str], body: bytes) -> Type:
        self._history.write("load", "post", "invoke", seq, url=url)
        status, note = 0, ""
        try:
            async with self._session.post(url, data=body, headers=headers) as answer:
                status = answer.status
                await answer.read()
        except (aiohttp.ClientError, TimeoutError) as problem:
            note = type(problem).__name__
        said: Type = meaning(status) if status else "info"
        self._history.write("load", "post", said, seq, status=status, note=note)
        return said


class Listings:
    """Puts events into a provider's list, where the poller has to find them. What is listed must be found."""

    def __init__(self, provider: Provider, history: History) -> None:
        self._provider = provider
        self._history = history

    async def send(self, plan: Plan, event: Planned) -> None:
        self._history.write("provider", "list", "invoke", event.seq)
        self._provider.add(token(plan.seed, event.origin), data_of(plan.seed, event))
        self._history.write("provider", "list", "ok", event.seq)


class Producers:
    """Another program's producer: no key, a random partition, acks=all."""

    def __init__(self, bootstrap: str, topic: str, history: History, avro_id: int) -> None:
        self._topic = topic
        self._history = history
        self._avro_id = avro_id
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "random",
                "acks": "all",
                "linger.ms": 2,
                "message.max.bytes": 4 * 2**20,
                "log_level": 0,
            }
        )

    async def send(self, plan: Plan, event: Planned) -> None:
        record = foreign_record(
            event, token(plan.seed, event.origin), data_of(plan.seed, event), self._avro_id
        )
        await self.produce(event.seq, record)

    async def produce(self, seq: int | None, record: Foreign) -> Message:
        """Produce one record and wait for the broker's ack."""
        done: asyncio.Future[tuple[KafkaError | None, Message]] = self._loop.create_future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._loop.call_soon_threadsafe(done.set_result, (error, message))

        self._history.write("foreign", "produce", "invoke", seq)
        self._producer.produce(
            self._topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        while not done.done():
            self._producer.poll(0)
            await asyncio.sleep(0.005)
        error, message = done.result()
        said: Type = "info" if error else "ok"
        self._history.write("foreign", "produce", said, seq, note=str(error or ""))
        return message


def fingerprint_of(seed: int, event: Planned) -> str:
    """Whose identity an event must get: <provider family>/<source>:<the sender's own id>."""
    mark = token(seed, event.origin)
    if event.door is Door.GITHUB:
        return f"github/gh:{mark}"
    if event.door is Door.GENERIC:
        return f"generic/plain:{mark}"
    if event.door is Door.POLLED:
        return fingerprint_of_item(mark)
    return foreign_fingerprint(event, mark, data_of(seed, event))
