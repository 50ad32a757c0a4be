"""Why: everything that became of one event, gathered from the topics.

Nothing is scanned whole when it can be avoided: an event id is a UUIDv7, so its time says where to begin;
a key's hash says in which partition; a decision says at which offset the event stands.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from headgate.common.deadletter import REPLAY_OF
from headgate.common.fingerprints import foreign_event_id
from headgate.common.headers import text

from .connection import Connection
from .errors import NotFound
from .events import Event, Found, event_of, time_of
from .letters import Filter, Letter, Letters, coordinates_of
from .scan import Progress, Record, Scan, Span, record_of
from .waiting import Waiting, for_decision, for_run

CLOCKS_MS = 10_000
"""How far the clocks of ingest, broker and processor may differ before a search takes longer."""
SIGHTINGS_SHOWN = 20
UNDECIDED_LOOKED_AT = 5_000
UNFINISHED = ("error", "unknown")


@dataclass
class Story:
    """One sighting and what followed. `others` are further sightings of the same thing, oldest first."""

    asked: str
    event: Event | None = None
    decisions: list[Found] = field(default_factory=list)
    runs: dict[str, Found] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    others: list[Event] = field(default_factory=list)

    @property
    def decision(self) -> Found | None:
        """The newest one: a replay is decided again."""
        return self.decisions[-1] if self.decisions else None

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """The newest verdict of each trigger."""
        newest = {v["trigger"]: v for decision in self.decisions for v in decision["verdicts"]}
        return list(newest.values())


class Teller:
    """Finds stories on one connection."""

    def __init__(self, connection: Connection, progress: Progress | None = None) -> None:
        self._connection = connection
        self._scan = Scan(connection, progress)
        self._topics = connection.topics
        self._topics_read = (self._topics.raw, self._topics.rekeyed)
        self._letters = Letters(connection, self._scan)

    def tell(self, asked: str) -> Story:
        """The story of an event id, a fingerprint, a run id or a place. NotFound when there is none."""
        if (place := self._place(asked)) is not None:
            return self._of_place(asked, *place)
        if "/" in asked and ":" in asked:
            return self._of_fingerprint(asked)
        try:
            event_id = str(uuid.UUID(asked))
        except ValueError:
            raise NotFound(
                f"{asked!r} is no event id, fingerprint (provider/scope:key; events/SOURCE:ID of a CloudEvent), run id or "
                "place (events.raw/3/17). Event ids are in the sender's 202 answer and in `headgate events tail`."
            ) from None
        at_ms = time_of(event_id)
        return self._of_event(event_id, at_ms) if at_ms is not None else self._of_derived(event_id)

    def _place(self, asked: str) -> tuple[str, int, int] | None:
        """`headgate.events.raw/3/17`, or without the prefix as decisions name it."""
        topic, _, place = asked.partition("/")
        where = coordinates_of(place)
        for known in self._topics_read:
            if (
                where is not None
                and place.count("/") == 1
                and known in (topic, f"{self._topics.prefix}.{topic}")
            ):
                return known, *where
        return None

    def _of_place(self, asked: str, topic: str, partition: int, offset: int) -> Story:
        record = self._scan.one(topic, partition, offset)
        if record is None:
            raise NotFound(f"there is no record at {topic}/{partition}/{offset}; events are kept for 7 days")
        return self._of_sighting(event_of(record, self._connection), asked)

    def _of_event(self, event_id: str, at_ms: int) -> Story:
        story = Story(event_id)
        since = at_ms - CLOCKS_MS
        story.decisions = self._keyed(self._topics.decisions, "Decision", event_id, since)
        if story.decisions:
            story.event = self._event_at(story.decisions[0])
        else:
            story.event = self._raw_with_id(event_id, at_ms)
        self._follow(story, event_id, since)
        if not (story.event or story.decisions or story.letters):
            raise NotFound(
                f"no event {event_id} on {self._topics.raw}, no decision about it and no dead letter. Events are "
                "kept for 7 days; is it of another --prefix or cluster? A CloudEvent of another program is asked for by "
                "its fingerprint, events/SOURCE:ID."
            )
        return story

    def _of_derived(self, some_id: str) -> Story:
        """A run id, or the id of an event that another program produced: neither holds a time."""
        run = self._newest_keyed(self._topics.runs, "Run", some_id)
        if run is not None:
            return self._of_run(run, some_id)
        decision = self._newest_keyed(self._topics.decisions, "Decision", some_id)
        if decision is not None:
            return self._of_decision(decision, some_id)
        matched = self._newest_keyed(self._topics.matched, "MatchedEvent", some_id)
        if matched is not None:
            return self._of_event_near(matched["event"]["id"], matched.record.timestamp_ms, some_id)
        elsewhere = self._letter_about(some_id) or self._undecided(some_id)
        if elsewhere is not None:
            return self._of_sighting(elsewhere, some_id)
        raise NotFound(
            f"no run {some_id}, and no event of that id that has been decided. Runs are kept for 30 days; "
            "an event of another program is found by our id of it once it is decided, by its fingerprint "
            "(events/SOURCE:ID for a CloudEvent) or its place (`headgate events tail -o json`: coordinates) at any "
            "time."
        )

    def _letter_about(self, some_id: str) -> Event | None:
        """The event behind a dead letter: another program's record whose id follows from its place."""
        for letter in self._letters.find(Filter(states=frozenset())):
            reason = letter.reason
            place = reason.topic, reason.partition, reason.offset
            if some_id in (reason.event_id, reason.run_id) or some_id == foreign_event_id(*place):
                record = self._scan.one(*place) if reason.topic in self._topics_read else None
                return event_of(record or letter.record, self._connection)
        return None

    def _undecided(self, some_id: str) -> Event | None:
        """Another program's record among the newest."""
        for record in self._scan.records(self._scan.newest(self._topics.raw, UNDECIDED_LOOKED_AT)):
            event = event_of(record, self._connection)
            if event.foreign and event.id == some_id:
                return event
        return None

    def _of_run(self, run: Found, asked: str) -> Story:
        story = self._of_event_near(run["event_id"], run["received_at"] // 1000, asked)
        story.runs.setdefault(run["run_id"], run)
        return story

    def _of_event_near(self, event_id: str, at_ms: int, asked: str) -> Story:
        at = time_of(event_id)
        if at is not None:
            story = self._of_event(event_id, at)
        else:
            found = self._keyed(self._topics.decisions, "Decision", event_id, at_ms - CLOCKS_MS)
            if not found:
                raise NotFound(f"{asked} belongs to event {event_id}, which is no longer kept")
            story = self._of_decision(found[0], asked)
        story.asked = asked
        return story

    def _of_decision(self, decision: Found, asked: str) -> Story:
        story = Story(asked, decisions=[decision], event=self._event_at(decision))
        self._follow(story, decision["event_id"], decision.record.timestamp_ms - CLOCKS_MS)
        return story

    def _of_fingerprint(self, fingerprint: str) -> Story:
        key = fingerprint.encode()
        sightings: list[Event] = []

        def same(message: Message) -> bool:
            # Whoever wrote no key of ours may have landed on this partition by chance.
            if message.key() == key or b"/" in (message.key() or b""):
                return message.key() == key
            return event_of(record_of(message), self._connection).fingerprint == fingerprint

        for topic in self._topics_read:
            for window in self._scan.backwards(topic, self._scan.home(topic, fingerprint)):
                found = self._matching(window, same)
                sightings += [event_of(record, self._connection) for record in found]
                if found:
                    break
        if not sightings:
            raise NotFound(
                f"no event with fingerprint {fingerprint} on {self._topics.raw}. Events are kept for 7 days; "
                "is it of another --prefix or cluster?"
            )
        sightings.sort(key=lambda event: event.record.timestamp_ms)
        first = sightings[0]
        story = self._of_sighting(first, fingerprint)
        story.others = sightings[1:][-SIGHTINGS_SHOWN:]
        return story

    def _of_sighting(self, event: Event, asked: str) -> Story:
        since = event.record.timestamp_ms - CLOCKS_MS
        story = Story(asked, event=event)
        story.decisions = self._keyed(self._topics.decisions, "Decision", event.id, since)
        self._follow(story, event.id, since)
        return story

    def _follow(self, story: Story, event_id: str, since: int) -> None:
        """From the decision on: runs, dead letters, and what is still to come."""
        self._find_runs(story, since)
        if not story.decisions or self._went_wrong(story):
            story.letters = self._letters_of(story, event_id, since)
            self._after_replays(story, event_id)
        if not story.decisions:
            if story.event is not None and not story.letters:
                story.waiting.append(for_decision(self._connection, self._scan, story.event))
            return
        for verdict in story.verdicts:
            run_id = verdict["run_id"]
            if verdict["outcome"] == "started" and run_id and run_id not in story.runs:
                decided_ms = story.decisions[-1]["decided_at"] // 1000 - CLOCKS_MS
                matched = self._keyed(self._topics.matched, "MatchedEvent", run_id, decided_ms)
                record = (
                    matched[-1].record if matched else self._matched_elsewhere(event_id, verdict, decided_ms)
                )
                story.waiting.append(for_run(self._connection, verdict["trigger"], run_id, record))

    def _went_wrong(self, story: Story) -> bool:
        return (
            any(decision["reason"] and not decision["verdicts"] for decision in story.decisions)
            or any(v["outcome"] in UNFINISHED for decision in story.decisions for v in decision["verdicts"])
            or any(run["state"] == "dead_lettered" for run in story.runs.values())
        )

    def _find_runs(self, story: Story, since: int) -> None:
        for verdict in story.verdicts:
            run_id = verdict["run_id"]
            if not run_id:
                continue
            found = self._keyed(self._topics.runs, "Run", run_id, since)
            newest = found[-1] if found else None
            if newest is None and verdict["outcome"] == "duplicate":
                newest = self._newest_keyed(self._topics.runs, "Run", run_id)
            if newest is not None:
                story.runs[run_id] = newest

    def _letters_of(self, story: Story, event_id: str, since: int) -> list[Letter]:
        place = story.event.record.coordinates if story.event else ""
        runs = {v["run_id"] for v in story.verdicts if v["run_id"]}

        def belongs(letter: Letter) -> bool:
            reason = letter.reason
            return (
                event_id in (reason.event_id, text(letter.record.headers, "ce_id"))
                or f"{reason.topic}/{reason.partition}/{reason.offset}" == place
                or (bool(reason.run_id) and reason.run_id in runs)
            )

        everything = Filter(since_ms=since, states=frozenset())
        return [letter for letter in self._letters.find(everything) if belongs(letter)]

    def _after_replays(self, story: Story, event_id: str) -> None:
        """What a replay led to stands where the replay's time points."""
        known = {decision.record.coordinates for decision in story.decisions}
        for letter in story.letters:
            if letter.mark is None or letter.mark.state != "replayed":
                continue
            since = int(letter.mark.at.timestamp() * 1000) - CLOCKS_MS
            for one in {event_id, self._id_after_replay(letter, since) or event_id}:
                later = self._keyed(self._topics.decisions, "Decision", one, since)
                story.decisions += [d for d in later if d.record.coordinates not in known]
                known |= {decision.record.coordinates for decision in later}
            self._find_runs(story, since)

    def _id_after_replay(self, letter: Letter, since: int) -> str | None:
        """The id that a replayed record got: another program's records are named after their place."""
        if letter.reason.topic not in self._topics_read:
            return None
        wanted = letter.record.coordinates.encode()
        for window in self._scan.forwards(letter.reason.topic, None, since):
            found = self._matching(window, lambda message: _header(message, REPLAY_OF) == wanted)
            if found:
                return event_of(found[0], self._connection).id
        return None

    def _matched_elsewhere(self, event_id: str, verdict: dict[str, Any], since: int) -> Record | None:
        """A matched event whose key is not the run id: its trigger asks for an order."""
        wanted = event_id.encode()
        for window in self._scan.forwards(self._topics.matched, None, since):
            for record in self._matching(window, lambda message: _header(message, "ce_id") == wanted):
                values = self._connection.codec.decode("MatchedEvent", record.value or b"")
                if values["run_id"] == verdict["run_id"]:
                    return record
        return None

    def _raw_with_id(self, event_id: str, at_ms: int) -> Event | None:
        """An undecided event: its key is unknown, its time is not."""
        wanted = event_id.encode()
        seen_until = at_ms - CLOCKS_MS
        for reach_ms in (30_000, 300_000, 6 * 3_600_000):
            spans = self._scan.between(self._topics.raw, seen_until, at_ms + reach_ms)
            found = self._matching(spans, lambda message: _header(message, "ce_id") == wanted)
            if found:
                return event_of(found[0], self._connection)
            seen_until = at_ms + reach_ms
        return None

    def _event_at(self, decision: Found) -> Event | None:
        record = self._scan.one(decision["topic"], decision["partition"], decision["offset"])
        return event_of(record, self._connection) if record else None

    def _keyed(self, topic: str, kind: str, key: str, since: int) -> list[Found]:
        """Records with this key from a time on: those of the first window that has any."""
        wanted = key.encode()
        for window in self._scan.forwards(topic, self._scan.home(topic, key), since):
            found = self._matching(window, lambda message: message.key() == wanted)
            if found:
                return [self._decoded(kind, record) for record in found if record.value is not None]
        return []

    def _newest_keyed(self, topic: str, kind: str, key: str) -> Found | None:
        wanted = key.encode()
        for window in self._scan.backwards(topic, self._scan.home(topic, key)):
            found = self._matching(window, lambda message: message.key() == wanted)
            if found and found[-1].value is not None:
                return self._decoded(kind, found[-1])
        return None

    def _decoded(self, kind: str, record: Record) -> Found:
        return Found(record, self._connection.codec.decode(kind, record.value or b""))

    def _matching(self, spans: Iterable[Span], takes: Callable[[Message], bool]) -> list[Record]:
        return list(_filtered(self._scan.messages(spans), takes))


def _filtered(messages: Iterable[Message], takes: Callable[[Message], bool]) -> Iterator[Record]:
    for message in messages:
        if takes(message):
            yield record_of(message)


def _header(message: Message, name: str) -> bytes | None:
    found = text(message.headers() or (), name)  # type: ignore[arg-type]
    return found.encode() if found else None
