"""One connection to Kafka and the registry, made when first needed, given up within seconds."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from headgate.common.errors import HeadgateError, Misconfigured, Unreachable
from headgate.common.headers import Headers
from headgate.common.registry import Codec, Registry
from headgate.common.settings import ServiceSettings

from .errors import TooLarge

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 6.0
WRITE_SECONDS = 20.0
QUIET = {"log_level": 0}
"""librdkafka reports trouble to stderr by itself; we say it once, in words."""


@dataclass(frozen=True)
class Outgoing:
    """A record to be written."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


@dataclass(frozen=True)
class Written:
    """Where the broker put a record."""

    topic: str
    partition: int
    offset: int


class Connection:
    """Kafka and the registry of one prefix. Not for use by several threads at once."""

    def __init__(self, settings: ServiceSettings, author: str = "") -> None:
        self.settings = settings
        self.topics = settings.kafka.topics()
        self.author = author or f"cli@{socket.gethostname()}"

    def _config(self, **more: str | int | bool) -> dict[str, Any]:
        return {**self.settings.kafka.librdkafka(), **QUIET, "client.id": "headgate-control", **more}

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self._config())

    def forget_leaders(self) -> None:
        """A client keeps the leaders it first learnt, and is refused for ever once they have changed."""
        self.__dict__.pop("admin", None)

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.settings.registry, self.settings.schema_cache)

    @cached_property
    def codec(self) -> Codec:
        return Codec(self.registry, self.topics)

    def consumer(self, **more: str | int | bool) -> Consumer:
        """A consumer for reading at will: it never joins a group nor commits."""
        return Consumer(
            self._config(
                **{
                    "group.id": f"{self.settings.kafka.prefix}.control-{random.getrandbits(32):08x}",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 100,
                    "fetch.error.backoff.ms": 50,
                    "queued.max.messages.kbytes": 32_768,
                    "queued.min.messages": 20_000,
                    "allow.auto.create.topics": False,
                    **more,
                }
            )
        )

    @cached_property
    def reader(self) -> Consumer:
        return self.consumer()

    def close(self) -> None:
        if "reader" in self.__dict__:
            self.reader.close()
        if "registry" in self.__dict__:
            self.registry.close()

    def check(self) -> None:
        """Raises Unreachable, with the next step, unless a broker answers within seconds."""
        bootstrap = self.settings.kafka.bootstrap
        refusals = [why for address in bootstrap.split(",") if (why := _refusal(address.strip()))]
        if len(refusals) == len(bootstrap.split(",")):
            raise Unreachable(
                f"Kafka does not answer at {bootstrap}: {refusals[0]}. "
                "Start one with `headgate dev`, or name yours with --bootstrap or HEADGATE_KAFKA__BOOTSTRAP."
            )
        try:
            self.admin.list_topics(timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise Unreachable(
                f"something listens at {bootstrap} but gives no Kafka answer within {ANSWER_SECONDS:.0f} s "
                f"({error.args[0].str()}). Check the port; if it wants TLS or a password, HEADGATE_KAFKA__SECURITY_PROTOCOL "
                "and the settings beside it (SASL_..., SSL_...)."
            ) from None

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; Misconfigured when it is not there."""
        return len(self._metadata(topic))

    def _metadata(self, topic: str) -> list[int]:
        known: dict[str, list[int]] = self.__dict__.setdefault("_known_partitions", {})
        if topic not in known:
            try:
                found = self.admin.list_topics(topic, timeout=ANSWER_SECONDS).topics.get(topic)
            except KafkaException as error:
                raise unreachable(error) from None
            if found is None or found.error is not None:
                raise Misconfigured(
                    f"there is no topic {topic} at {self.settings.kafka.bootstrap}; create the topics with "
                    "`headgate topics apply`, or check --prefix"
                )
            known[topic] = sorted(found.partitions)
        return known[topic]

    def write(self, records: Iterable[Outgoing]) -> list[Written]:
        """Writes records in order and returns once the broker has stored every one of them (acks=all).

        TooLarge: all but those that no attempt would get there are stored.
        """
        outgoing = list(records)
        done: list[Written | None] = [None] * len(outgoing)
        failed: dict[int, KafkaError] = {}

        def arrived(index: int, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed[index] = error
            else:
                done[index] = Written(message.topic() or "", message.partition() or 0, message.offset() or 0)

        for index, record in enumerate(outgoing):
            self._metadata(record.topic)
            self.producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                headers=cast(list[tuple[str, str | bytes | None]] | None, record.headers),
                on_delivery=partial(arrived, index),
            )
            self.producer.poll(0)
        left = self.producer.flush(WRITE_SECONDS)
        too_large = {i for i, error in failed.items() if error.code() == KafkaError.MSG_SIZE_TOO_LARGE}
        if too_large and not left and len(too_large) == len(failed):
            raise TooLarge(outgoing[min(too_large)].topic, too_large)
        if failed or left:
            why = (
                next(iter(failed.values())).str()
                if failed
                else f"no acknowledgement within {WRITE_SECONDS:.0f} s"
            )
            stored = sum(one is not None for one in done)
            raise Unreachable(
                f"Kafka stored {stored} of {len(outgoing)} records, then: {why}. Repeat the command: "
                "what is already there is recognised."
            )
        return [one for one in done if one is not None]

    @cached_property
    def producer(self) -> Producer:
        settings: dict[str, str | int | bool] = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": int(WRITE_SECONDS * 1000) - 1000,
            "message.max.bytes": 8 * 1024 * 1024,
        }
        return Producer(self._config(**settings))


def unreachable(error: KafkaException) -> HeadgateError:
    """librdkafka's error as one of ours."""
    problem = error.args[0]
    if problem.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        return Misconfigured(f"Kafka refuses: {problem.str()}. Ask for the ACL, or use another user.")
    return Unreachable(
        f"Kafka stopped answering: {problem.str()}. Try again; `headgate doctor` looks closer."
    )


def _refusal(address: str) -> str | None:
    """Why no TCP connection to host:port can be made, or None when one can."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address!r} is not host:port"
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return "nobody listens there"
    except socket.gaierror:
        return f"there is no host {host}"
    except OSError as error:
        return str(error)
    return None
