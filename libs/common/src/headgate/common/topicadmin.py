"""Bring a cluster's topics to what `topics.py` declares, or say how they differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headgate.common.errors import Unreachable
from headgate.common.settings import KafkaSettings
from headgate.common.topics import Topic, Topics

TIMEOUT_SECONDS = 15
METADATA_SECONDS = 5


@dataclass(frozen=True)
class Finding:
    """One topic's state: `created`, `ok`, `changed`, `missing` or `wrong`."""

    topic: str
    state: str
    detail: str = ""

    @property
    def is_problem(self) -> bool:
        return self.state in ("missing", "wrong")


class TopicAdmin:
    """`apply` creates and adjusts; `check` only looks. Neither ever deletes or shrinks anything."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin = AdminClient({**settings.librdkafka(), "socket.timeout.ms": 10_000, "log_level": 2})

    def partitions(self) -> dict[str, int]:
        """Partition count of every topic there is."""
        try:
            metadata = self._admin.list_topics(timeout=METADATA_SECONDS)
        except KafkaException as problem:
            raise Unreachable(
                f"Kafka at {self._settings.bootstrap} does not answer ({problem.args[0].str()}); "
                "check HEADGATE_KAFKA__BOOTSTRAP and that the broker runs"
            ) from problem
        self._brokers = len(metadata.brokers)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def apply(self, topics: Topics) -> list[Finding]:
        """Create what is missing and set configs that differ. A wrong partition count is only reported:
        adding partitions would move fingerprints away from their dedupe state."""
        there = self.partitions()
        missing = [topic for topic in topics.all if topic.name not in there]
        findings = self._create(missing)
        for finding in self.check(topics, [topic for topic in topics.all if topic.name in there]):
            if finding.state == "wrong" and "partitions" not in finding.detail:
                self._set_config(topics.get(finding.topic))
                finding = Finding(finding.topic, "changed", finding.detail)
            findings.append(finding)
        return findings

    def check(self, topics: Topics, only: list[Topic] | None = None) -> list[Finding]:
        """Compare without changing anything."""
        wanted = list(topics.all) if only is None else only
        there = self.partitions()
        present = [topic for topic in wanted if topic.name in there]
        configs = self._configs(present)
        findings = []
        for topic in wanted:
            if topic.name not in there:
                findings.append(Finding(topic.name, "missing", "run: headgate topics apply"))
            elif there[topic.name] != topic.partitions:
                findings.append(
                    Finding(
                        topic.name,
                        "wrong",
                        f"has {there[topic.name]} partitions, we need {topic.partitions}: use a new "
                        "HEADGATE_KAFKA__PREFIX, or set HEADGATE_KAFKA__PARTITIONS to what is there",
                    )
                )
            else:
                actual = configs[topic.name]
                off = [
                    f"{key} is {actual.get(key)}, must be {value}"
                    for key, value in topic.config.items()
                    if not _same(key, actual.get(key), value)
                ]
                detail = "; ".join(off) + (": run headgate topics apply" if off else "")
                findings.append(Finding(topic.name, "wrong" if off else "ok", detail))
        return findings

    def _create(self, topics: list[Topic]) -> list[Finding]:
        if not topics:
            return []
        replication = max(1, min(self._settings.replication, self._brokers))
        safe = {"min.insync.replicas": "2"} if replication >= 3 else {}
        requests = [
            NewTopic(topic.name, topic.partitions, replication, config={**safe, **topic.config})
            for topic in topics
        ]
        for name, future in self._admin.create_topics(requests, operation_timeout=TIMEOUT_SECONDS).items():
            try:
                future.result(timeout=TIMEOUT_SECONDS * 2)
            except KafkaException as problem:
                if problem.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise Unreachable(f"could not create {name}: {problem.args[0].str()}") from problem
        names = {topic.name for topic in topics}
        _await(lambda: names <= self.partitions().keys())
        return [Finding(topic.name, "created", f"{topic.partitions} partitions") for topic in topics]

    def _set_config(self, topic: Topic) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            topic.name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in topic.config.items()
            ],
        )
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(timeout=TIMEOUT_SECONDS)
        _await(lambda: self._is_so(topic))

    def _is_so(self, topic: Topic) -> bool:
        actual = self._configs([topic])[topic.name]
        return all(_same(key, actual.get(key), value) for key, value in topic.config.items())

    def _configs(self, topics: list[Topic]) -> dict[str, dict[str, str]]:
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
        return {
            resource.name: {
                entry.name: entry.value for entry in future.result(timeout=TIMEOUT_SECONDS).values()
            }
            for resource, future in self._admin.describe_configs(resources).items()
        }


def _await(condition: Callable[[], bool]) -> None:
    """The controller answers before every broker has heard: wait until what was done can be seen."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Unreachable("Kafka took the change but does not show it; try again, then look at its logs")
        time.sleep(0.05)


def _same(key: str, actual: str | None, wanted: str) -> bool:
    if key == "cleanup.policy":
        return set((actual or "").split(",")) == set(wanted.split(","))
    return actual == wanted
