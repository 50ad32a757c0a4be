"""From what was observed to what the checker judges."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import ids
from tests.harness.decoding import Decoder
from tests.harness.evidence import (
    Coordinates,
    CursorSeen,
    DeadLetter,
    Evidence,
    Expected,
    Matched,
    Served,
)
from tests.harness.history import promises, read
from tests.harness.observers import Record, Sampler, TopicReader
from tests.harness.pipeline import TRIGGER, Pipeline
from tests.harness.plan import Kind, Plan, Poison, find_token, token
from tests.harness.senders import body_of, fingerprint_of

WEBHOOK = "webhook"
"""Stands for a topic in the coordinates of what ingest dead-letters: it never stood on one."""


@dataclass(frozen=True)
class Extra:
    """What a scenario sent besides the plan, or knows besides the topics."""

    expected: tuple[Expected, ...] = ()
    accepted: frozenset[str] = frozenset()
    originals: Mapping[Coordinates, str] = field(default_factory=dict)
    cursors: tuple[CursorSeen, ...] = ()
    served: tuple[Served, ...] = ()
    healed: frozenset[Poison] = frozenset()
    """Poison whose cause was removed, and that was replayed."""


def collect(
    pipeline: Pipeline,
    reader: TopicReader,
    sampler: Sampler,
    plan: Plan,
    history: Path,
    marks: tuple[int, int],
    *,
    once_each: bool,
    extra: Extra,
) -> Evidence:
    """Everything that belongs to one round: what came after `marks`, and the topics as far as not forgotten."""
    topics = pipeline.topics
    accepted, refused, unsure = promises(read(history))
    sent = accepted | refused | unsure

    def names(seqs: Iterable[int]) -> set[str]:
        return {token(plan.seed, plan[seq].origin) for seq in seqs}

    expected, marks_of, originals = [], {}, dict[Coordinates, str](extra.originals)
    for seq in sorted(sent):
        event = plan[seq]
        if event.kind is Kind.DUPLICATE and event.origin in sent:
            continue
        fingerprint, mark = fingerprint_of(plan.seed, event), token(plan.seed, event.origin)
        kind = "new" if event.kind is Kind.DUPLICATE else event.kind.value
        if event.poison in extra.healed:
            kind = "healed"
        expected.append(Expected(mark, kind, ids.run_id(pipeline.prefix, TRIGGER, fingerprint)))
        marks_of[fingerprint] = mark
        if event.door.webhook:
            originals[WEBHOOK, 0, event.origin] = hashlib.sha256(body_of(plan.seed, event)).hexdigest()
    for topic in (topics.raw, topics.rekeyed, topics.matched):
        originals.update({record.where: record.sha for record in reader.records(topic)})
    decoder = Decoder(pipeline.cluster.registry.url)
    ok = names(accepted)
    return Evidence(
        expected=(*expected, *extra.expected),
        accepted=frozenset(ok) | extra.accepted,
        refused=frozenset(names(refused) - ok - names(unsure)),
        unsure=frozenset(names(unsure) - ok),
        runs=tuple(pipeline.runs(marks[0])),
        attempts=tuple(pipeline.attempts(marks[1])),
        filtered=frozenset(_filtered(reader.records(topics.decisions), decoder, marks_of)),
        dead=tuple(_letter(record) for record in reader.records(topics.dlq)),
        originals=originals,
        offsets=tuple(sampler.samples),
        cursors=extra.cursors,
        served=extra.served,
        matched=tuple(_matched(reader.records(topics.matched), decoder)),
        runner_group=pipeline.groups[1],
        matched_topic=topics.matched,
        once_each=once_each,
    )


def _filtered(decisions: Iterable[Record], decoder: Decoder, marks: Mapping[str, str]) -> Iterable[str]:
    for record in decisions:
        decision = decoder.decode(record.value or b"")
        if any(verdict["outcome"] == "filtered" for verdict in decision["verdicts"]):
            fingerprint = decision["fingerprint"]
            yield marks.get(fingerprint, fingerprint)


def _matched(records: Iterable[Record], decoder: Decoder) -> Iterable[Matched]:
    for record in records:
        with contextlib.suppress(Exception):  # what a scenario wrote there itself need not be readable
            run = decoder.decode(record.value or b"")["run_id"]
            yield Matched(record.partition, record.offset, run)


def _letter(record: Record) -> DeadLetter:
    found = find_token(record.value) or find_token(record.key)
    stage = record.header("headgate.stage")
    topic = record.header("__connect.errors.topic")
    origin: Coordinates | None = None
    if stage == "ingest" and found:
        origin = (WEBHOOK, 0, found[1])
    elif topic:
        partition, offset = (record.header(f"__connect.errors.{name}") for name in ("partition", "offset"))
        origin = (topic, int(partition or "-1"), int(offset or "-1"))
    mark = token(*found) if found else None
    return DeadLetter(mark, origin, record.sha, stage, record.header("__connect.errors.exception.message"))
