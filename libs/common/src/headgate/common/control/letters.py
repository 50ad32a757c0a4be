"""Dead letters: finding them, sending them back, and remembering what became of each.

A letter itself is never changed. Its fate stands on the marks topic under its coordinates, written only
after the broker has stored the replayed record: a crash in between replays once more, which starts no
second run, since run ids do not depend on positions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headgate.common import deadletter
from headgate.common.errors import Misconfigured, Poison

from .connection import Connection, Outgoing
from .errors import TooLarge
from .scan import Record, Scan

BATCH = 200


@dataclass(frozen=True)
class Mark:
    """What someone did with a letter."""

    state: str
    at: datetime
    by: str
    note: str


@dataclass(frozen=True)
class Letter:
    """One record of the dead-letter topic, with its reason read out."""

    record: Record
    reason: deadletter.Reason
    mark: Mark | None = None

    @property
    def id(self) -> str:
        """`partition/offset` on the dead-letter topic: short enough to type."""
        return f"{self.record.partition}/{self.record.offset}"

    @property
    def state(self) -> str:
        return self.mark.state if self.mark else "waiting"

    @property
    def failed_at(self) -> datetime:
        return datetime.fromtimestamp(self.record.timestamp_ms / 1000, UTC)


@dataclass(frozen=True)
class Filter:
    """Which letters: what is None does not restrict."""

    ids: frozenset[str] = frozenset()
    stage: str | None = None
    error: str | None = None
    trigger: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    states: frozenset[str] = frozenset({"waiting"})

    def takes(self, letter: Letter) -> bool:
        reason = letter.reason
        if self.ids and letter.id not in self.ids and letter.record.coordinates not in self.ids:
            return False
        if self.stage and reason.stage.casefold() != self.stage.casefold():
            return False
        if self.trigger and reason.trigger != self.trigger:
            return False
        wanted = (self.error or "").casefold()
        if wanted and wanted != reason.code.casefold() and wanted not in reason.message.casefold():
            return False
        return not self.states or letter.state in self.states


class Letters:
    """The dead-letter topic of one prefix."""

    def __init__(self, connection: Connection, scan: Scan | None = None) -> None:
        self._connection = connection
        self._scan = scan or Scan(connection)
        self._topic = connection.topics.dlq
        self.too_large: list[Letter] = []
        """Letters that a replay had to leave: with the headers of a replay their topic does not take them."""

    def stays(self, letter: Letter) -> str | None:
        """Why a letter cannot be sent back; None when it can. Its headers are anybody's words: only topics that
        events of ours come from are written to."""
        topics = self._connection.topics
        if not letter.reason.topic:
            return "the topic of origin is not in the headers"
        if letter.reason.topic not in (topics.raw, topics.rekeyed, topics.matched):
            return f"the topic of origin is not one of {topics.prefix}'s"
        return None

    def marks(self) -> dict[str, Mark]:
        """The newest mark of every marked letter, by the letter's coordinates."""
        found: dict[str, Mark] = {}
        for record in self._scan.records(self._scan.whole(self._connection.topics.dlq_marks)):
            key = (record.key or b"").decode(errors="replace")
            if record.value is None:
                found.pop(key, None)
                continue
            values = self._connection.codec.decode("DeadLetterMark", record.value)
            found[key] = Mark(
                str(values["state"]), from_micros(values["at"]), str(values["by"]), str(values["note"])
            )
        return found

    def find(self, wanted: Filter) -> Iterator[Letter]:
        """The letters a filter takes, oldest first within a partition."""
        marks = self.marks()
        spans = self._scan.between(self._topic, wanted.since_ms, wanted.until_ms)
        for record in self._scan.records(_narrowed(spans, wanted.ids)):
            letter = self._letter(record, marks)
            if wanted.takes(letter):
                yield letter

    def get(self, letter_id: str) -> Letter | None:
        """The letter of an id (`partition/offset`, or with the topic in front)."""
        place = coordinates_of(letter_id)
        if letter_id.count("/") > 1 and not letter_id.startswith(f"{self._topic}/"):
            return None  # a place on another topic, as "came from" shows it
        record = place and self._scan.one(self._topic, *place)
        return self._letter(record, self.marks()) if record else None

    def _letter(self, record: Record, marks: dict[str, Mark]) -> Letter:
        return Letter(record, deadletter.read(record.headers), marks.get(record.coordinates))

    def replay(self, letters: Iterable[Letter], pace: Pace | None = None, note: str = "") -> Iterator[Letter]:
        """Produces letters again to the topics they came from, then marks them. Yields each once marked."""
        yield from self._settle(letters, "replayed", pace, note)

    def discard(self, letters: Iterable[Letter], note: str = "") -> Iterator[Letter]:
        """Marks letters as not to be handled. Nothing is deleted: the topic's retention does that."""
        yield from self._settle(letters, "discarded", None, note)

    def _settle(
        self, letters: Iterable[Letter], state: str, pace: Pace | None, note: str
    ) -> Iterator[Letter]:
        for batch in _batches(letters, min(BATCH, pace.burst) if pace else BATCH):
            if pace:
                pace.wait(len(batch))
            if state == "replayed":
                batch = self._sent(batch)
            mark = Mark(state, datetime.now(UTC), self._connection.author, note)
            self._connection.write(self._mark(letter, mark) for letter in batch)
            for letter in batch:
                yield replace(letter, mark=mark)

    def _sent(self, batch: list[Letter]) -> list[Letter]:
        """Sends letters back; gives those that are there now. One that never will be keeps no other back."""
        try:
            self._connection.write(replayed(letter) for letter in batch)
        except TooLarge as problem:
            if len(batch) == 1:
                self.too_large += batch
                return []
            # The client sends several at once, and the broker refuses all of them: ask for each.
            stored = [letter for index, letter in enumerate(batch) if index not in problem.which]
            return stored + [one for index in sorted(problem.which) for one in self._sent([batch[index]])]
        return batch

    def _mark(self, letter: Letter, mark: Mark) -> Outgoing:
        coordinates = letter.record.coordinates
        values = {
            "letter": coordinates,
            "state": mark.state,
            "at": int(mark.at.timestamp() * 1_000_000),
            "by": mark.by,
            "note": mark.note,
        }
        value = self._connection.codec.encode("DeadLetterMark", values)
        return Outgoing(self._connection.topics.dlq_marks, coordinates.encode(), value)


def replayed(letter: Letter) -> Outgoing:
    """The record that sends a letter back to where it came from: key and bytes as they were."""
    if not letter.reason.topic:
        raise Misconfigured(
            f"dead letter {letter.id} does not say which topic it came from ({deadletter.CONNECT}topic is missing). "
            "Produce it by hand with kcat, then `headgate dlq discard` it."
        )
    record = letter.record
    headers = deadletter.replay_headers(record.headers, record.coordinates)
    return Outgoing(letter.reason.topic, record.key, record.value, headers)


@dataclass
class Pace:
    """So many a second, evenly: what is behind a replay must be able to keep up."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _next: float | None = None

    @property
    def burst(self) -> int:
        return max(1, int(self.per_second / 5))

    def wait(self, count: int) -> None:
        """Returns when `count` more may go."""
        now = self.clock()
        due = now if self._next is None else max(now, self._next)
        if due > now:
            self.sleep(due - now)
        self._next = due + count / self.per_second


def from_micros(value: int) -> datetime:
    return datetime.fromtimestamp(value / 1_000_000, UTC)


def coordinates_of(letter_id: str) -> tuple[int, int] | None:
    """`3/17` or `headgate.events.dlq/3/17` as partition and offset."""
    parts = letter_id.split("/")[-2:]
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1])
    return None


def decoded(letter: Letter, connection: Connection) -> dict[str, object] | None:
    """The event inside a letter, when its bytes are one."""
    if letter.record.value is None:
        return None
    kind = "MatchedEvent" if letter.reason.topic == connection.topics.matched else "RawEvent"
    try:
        return connection.codec.decode(kind, letter.record.value)
    except Poison:
        return None


def _narrowed(spans: list, ids: frozenset[str]) -> list:  # type: ignore[type-arg]
    places = [place for one in ids if (place := coordinates_of(one))]
    if not ids:
        return spans
    return [
        replace(span, start=max(span.start, min(offsets)), end=min(span.end, max(offsets) + 1))
        for span in spans
        if (offsets := [offset for partition, offset in places if partition == span.partition])
    ]


def _batches(letters: Iterable[Letter], size: int) -> Iterator[list[Letter]]:
    batch: list[Letter] = []
    for letter in letters:
        batch.append(letter)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
