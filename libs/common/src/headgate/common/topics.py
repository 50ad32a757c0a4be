"""The one declaration of our topics: name, partitions, cleanup, retention, schema, who writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

DAY_MS = 86_400_000
MIB = 1_048_576

MAX_RECORD_BYTES = MIB
"""What we accept as one event. Topics take a little more, since our envelope comes on top."""

DEFAULT_PARTITIONS = 6


@dataclass(frozen=True)
class Topic:
    """One topic as it must be. `topicadmin` creates it so, or says what differs."""

    name: str
    partitions: int
    config: dict[str, str]
    doc: str
    schema: str | None = None
    """Record type in `schemas/`, registered under `<topic>-value`; None for bytes as they came."""


def _deleted(days: int, *, mib: int = 2) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(days * DAY_MS),
        "max.message.bytes": str(mib * MIB),
    }


def _compacted() -> dict[str, str]:
    return {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"}


BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}
"""Dedupe counts its window in the broker's time: no producer's clock can move it."""


@dataclass(frozen=True)
class Topics:
    """The topics of one prefix. Events that share a table share a partition count."""

    prefix: str = "headgate"
    partitions: int = DEFAULT_PARTITIONS

    def _name(self, rest: str) -> str:
        return f"{self.prefix}.{rest}"

    @property
    def raw(self) -> str:
        return self._name("events.raw")

    @property
    def rekeyed(self) -> str:
        return self._name("events.rekeyed")

    @property
    def matched(self) -> str:
        return self._name("events.matched")

    @property
    def dlq(self) -> str:
        return self._name("events.dlq")

    @property
    def dlq_marks(self) -> str:
        return self._name("events.dlq.marks")

    @property
    def decisions(self) -> str:
        return self._name("decisions")

    @property
    def triggers(self) -> str:
        return self._name("triggers")

    @property
    def sources(self) -> str:
        return self._name("sources")

    @property
    def cursors(self) -> str:
        return self._name("cursors")

    @property
    def runs(self) -> str:
        return self._name("runs")

    @property
    def local_runs(self) -> str:
        return self._name("engine.local")

    @property
    def processor_app(self) -> str:
        """Faust's app id: its group, and the first part of its changelog's name."""
        return self._name("processor")

    @property
    def runner_group(self) -> str:
        return self._name("runner")

    @property
    def fingerprints_changelog(self) -> str:
        return f"{self.processor_app}-fingerprints-changelog"

    @cached_property
    def all(self) -> tuple[Topic, ...]:
        """Every topic, in the order in which an event meets them."""
        many = self.partitions
        return (
            Topic(
                self.raw,
                many,
                {**_deleted(7), **BROKER_TIME},
                "Events as ingest services and other systems publish them; key: fingerprint.",
                "RawEvent",
            ),
            Topic(
                self.rekeyed,
                many,
                {**_deleted(7), **BROKER_TIME},
                "Raw records that other producers put on another partition than their fingerprint's.",
            ),
            Topic(
                self.matched,
                many,
                _deleted(7, mib=4),
                "An event and the one trigger that wants it: the runner's work.",
                "MatchedEvent",
            ),
            Topic(
                self.dlq,
                many,
                _deleted(30, mib=6),
                "What could not be handled: original key, bytes and headers, with the reason in headers.",
            ),
            Topic(
                self.dlq_marks,
                1,
                {**_compacted(), "cleanup.policy": "compact,delete", "retention.ms": str(30 * DAY_MS)},
                "Which dead letters were replayed or discarded.",
                "DeadLetterMark",
            ),
            Topic(
                self.decisions,
                many,
                _deleted(7),
                "What was decided for each event and why; key: event id.",
                "Decision",
            ),
            Topic(self.triggers, 1, _compacted(), "Triggers, newest revision by name.", "TriggerRecord"),
            Topic(self.sources, 1, _compacted(), "Sources, newest revision by name.", "SourceRecord"),
            Topic(self.cursors, many, _compacted(), "How far each source has been read.", "CursorRecord"),
            Topic(
                self.runs,
                many,
                {**_compacted(), "cleanup.policy": "compact,delete", "retention.ms": str(30 * DAY_MS)},
                "Runs by run id, newest state.",
                "Run",
            ),
            Topic(self.local_runs, 1, _deleted(7), "What the local engine ran: the demo's workflow engine."),
            Topic(
                self.fingerprints_changelog,
                many,
                _compacted(),
                "The processor's dedupe table. Compact only: a time limit would make its recovery hang.",
            ),
        )

    def get(self, name: str) -> Topic:
        return next(topic for topic in self.all if topic.name == name)
