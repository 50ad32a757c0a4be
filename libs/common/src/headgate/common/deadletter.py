"""A dead letter explains itself to any Kafka tool: the original key, value and headers untouched, and
the reason in headers under the names Kafka Connect taught everyone, plus a few of our own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.common.headers import Headers, text

CONNECT = "__connect.errors."
OWN = "headgate."
REPLAY_OF = "headgate-replay-of"
ATTEMPT = "headgate.attempt"
TRIGGER = "headgate.trigger"

RawHeaders = Iterable[tuple[str, bytes | str | None]]

_OURS = frozenset(
    {f"{OWN}{name}" for name in ("stage", "error", "fingerprint", "next", "failed-at", "event-id", "run-id")}
)
_MAX_TEXT = 8_000


@dataclass(frozen=True)
class Reason:
    """Why a record is on the dead-letter topic, and what a person can do about it."""

    stage: str
    """The service that gave up: ingest, processor, runner, poller, ..."""
    code: str
    """A short, stable word to filter by: undecodable, condition-error, engine-refused, ..."""
    message: str
    next: str = "fix the cause, then: headgate dlq replay"
    exception: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    trigger: str = ""
    fingerprint: str = ""
    event_id: str = ""
    run_id: str = ""
    attempt: int = 1


def attempt_of(original: RawHeaders | None) -> int:
    """Which attempt a record is: 1, or what a replay wrote."""
    try:
        return max(1, int(text(original, ATTEMPT) or 1))
    except ValueError:
        return 1


def headers(reason: Reason, original: RawHeaders | None, failed_at: datetime) -> Headers:
    """The headers of a dead letter: the original ones, then the reason."""
    kept = [(name, _bytes(value)) for name, value in original or () if not _is_reason(name)]
    connect = {
        "topic": reason.topic,
        "partition": reason.partition if reason.partition >= 0 else "",
        "offset": reason.offset if reason.offset >= 0 else "",
        "connector.name": f"headgate-{reason.stage}",
        "task.id": "0",
        "stage": reason.stage.upper(),
        "class.name": f"headgate.{reason.stage}",
        "exception.class.name": reason.exception or reason.code,
        "exception.message": reason.message,
    }
    own = {
        "stage": reason.stage,
        "error": reason.code,
        "next": reason.next,
        "failed-at": failed_at.astimezone(UTC).isoformat(),
        "attempt": reason.attempt,
        "trigger": reason.trigger,
        "fingerprint": reason.fingerprint,
        "event-id": reason.event_id,
        "run-id": reason.run_id,
    }
    added = [(CONNECT + name, _value(value)) for name, value in connect.items()]
    added += [(OWN + name, _value(value)) for name, value in own.items() if value != ""]
    return kept + added


def original_headers(letter: RawHeaders | None) -> Headers:
    """A dead letter's headers as they were before it died."""
    return [(name, _bytes(value)) for name, value in letter or () if not _is_reason(name)]


def replay_headers(letter: RawHeaders | None, coordinates: str) -> Headers:
    """The headers under which a dead letter is produced again to the topic it came from."""
    again = [(name, value) for name, value in original_headers(letter) if name != REPLAY_OF]
    again.append((REPLAY_OF, coordinates.encode()))
    again.append((ATTEMPT, str(attempt_of(letter) + 1).encode()))
    trigger = text(letter, TRIGGER)
    if trigger:
        again.append((TRIGGER, trigger.encode()))
    return again


def read(letter: RawHeaders | None) -> Reason:
    """The reason out of a dead letter's headers; empty words where it has none."""
    many = list(letter or ())

    def connect(name: str) -> str:
        return text(many, CONNECT + name) or ""

    def own(name: str) -> str:
        return text(many, OWN + name) or ""

    return Reason(
        stage=own("stage") or connect("stage").lower(),
        code=own("error") or connect("exception.class.name"),
        message=connect("exception.message"),
        next=own("next"),
        exception=connect("exception.class.name"),
        topic=connect("topic"),
        partition=_number(connect("partition")),
        offset=_number(connect("offset")),
        trigger=own("trigger"),
        fingerprint=own("fingerprint"),
        event_id=own("event-id"),
        run_id=own("run-id"),
        attempt=attempt_of(many),
    )


def _is_reason(name: str) -> bool:
    return name.startswith(CONNECT) or name in _OURS or name in (ATTEMPT, TRIGGER)


def _bytes(value: bytes | str | None) -> bytes:
    """librdkafka cannot tell a null header from an empty one when producing; the empty one is kept."""
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else value


def _value(value: object) -> bytes:
    return str(value)[:_MAX_TEXT].encode("utf-8", "replace")


def _number(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        return -1
