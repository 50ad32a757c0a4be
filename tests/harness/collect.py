"""From what was observed to what the checker judges."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from tests.harness import ids, provider
from tests.harness.decoding import Decoder
from tests.harness.evidence import (
    Coordinates,
    CursorSeen,
    DeadLetter,
    Evidence,
    Expected,
    Matched,
    RunRow,
    Served,
)
from tests.harness.history import promises, read
from tests.harness.observers import Record, Sampler, TopicReader
from tests.harness.pipeline import CRON, TRIGGER, Pipeline
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
    copies: int = 0
    """Events that were sent again and again, beyond the plan."""
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
    runs = tuple(pipeline.runs(marks[0]))
    slots = _slots(pipeline.prefix, runs, reader.records(topics.raw))
    runs = (*_begun_before(pipeline, runs, slots), *runs)
    return Evidence(
        expected=(*expected, *extra.expected, *slots),
        accepted=frozenset(ok) | extra.accepted | {one.token for one in slots},
        refused=frozenset(names(refused) - ok - names(unsure)),
        unsure=frozenset(names(unsure) - ok),
        runs=runs,
        attempts=tuple(pipeline.attempts()),
        filtered=frozenset(_filtered(reader.records(topics.decisions), decoder, marks_of)),
        dead=tuple(_letter(record) for record in reader.records(topics.dlq)),
        originals=originals,
        offsets=tuple(sampler.samples),
        cursors=tuple(_cursors(reader.records(topics.cursors), decoder)),
        served=tuple(_served(pipeline.provider, reader.records(topics.raw))),
        matched=tuple(_matched(reader.records(topics.matched), decoder)),
        runner_group=list(pipeline.groups)[1],
        matched_topic=topics.matched,
        once_each=once_each,
    )


def _slots(prefix: str, runs: Sequence[RunRow], stored: Iterable[Record]) -> list[Expected]:
    """Every second from the first slot that is known to the last one, by its run or by its record: each must have
    its run."""
    begins = f"cron/{CRON}:"
    names = [row.token.removeprefix("slot ") for row in runs if row.token.startswith("slot ")]
    keys = [(record.key or b"").decode("utf-8", "replace") for record in stored]
    names += [key.removeprefix(begins) for key in keys if key.startswith(begins)]
    known = sorted(map(datetime.fromisoformat, names))
    slots: list[Expected] = []
    while known and (slot := known[0] + timedelta(seconds=len(slots))) <= known[-1]:
        name = slot.isoformat().replace("+00:00", "Z")
        slots.append(Expected(f"slot {name}", "new", ids.run_id(prefix, CRON, f"{begins}{name}")))
    return slots


def _begun_before(pipeline: Pipeline, runs: Sequence[RunRow], slots: Sequence[Expected]) -> Iterable[RunRow]:
    """Of the slots that cron makes up for at once, some may have run just before the round began, and some after."""
    wanted = {one.token for one in slots} - {row.token for row in runs}
    return [row for row in pipeline.runs() if row.token in wanted]


def _cursors(records: Iterable[Record], decoder: Decoder) -> Iterable[CursorSeen]:
    """How far the polled source's position was, and when it was written."""
    for record in records:
        if record.value is not None and record.key == provider.SOURCE.encode():
            since = datetime.fromisoformat(json.loads(decoder.decode(record.value)["cursor"])["since"])
            yield CursorSeen(record.at_ms, provider.SOURCE, int(since.timestamp() * 1_000_000))


def _served(listed: provider.Provider, records: Iterable[Record]) -> Iterable[Served]:
    """The items of the list, each with the time at which the raw topic first had it."""
    stored: dict[bytes, int] = {}
    for record in records:
        if record.key is not None and record.key.startswith(b"json/"):
            stored.setdefault(record.key, record.at_ms)
    seen: set[str] = set()
    for item in listed.items:
        if item.mark not in seen:
            key = provider.fingerprint_of_item(item.mark).encode()
            yield Served(provider.SOURCE, item.micros, stored.get(key))
        seen.add(item.mark)


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
