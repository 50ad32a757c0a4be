"""An event as the record it becomes, and an unreadable body as the dead letter it becomes. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from re import compile as pattern
from typing import Any, NamedTuple

from uuid_utils import uuid7

from headgate.common import deadletter
from headgate.common.fingerprints import fingerprint, of_bytes
from headgate.common.headers import Headers, child_traceparent, cloud_event
from headgate.common.hooks import Event, Request, Unreadable
from headgate.ingest_webhook.routes import Route

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
TRACEPARENT = pattern(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
LONGEST_TEXT = 500
LONGEST_ATTRIBUTE = 1000


class Sighting(NamedTuple):
    """One event with its ids: the values of a RawEvent and what stands beside them on the record."""

    event_id: str
    fingerprint: str
    values: dict[str, Any]
    headers: Headers


def sighting(event: Event, route: Route, request: Request) -> Sighting:
    """What `event` is called here, and all that is written of it."""
    event_id = str(uuid7())
    identity = fingerprint(route.provider, route.scope, event.key)
    kind = clean(event.type)
    subject = clean(event.subject) if event.subject else None
    received = (request.received_at - EPOCH) // MICROSECOND
    same = event.occurred_at is request.received_at
    occurred = received if same else (event.occurred_at - EPOCH) // MICROSECOND
    values = {
        "id": event_id,
        "fingerprint": identity,
        "source": route.source,
        "provider": route.provider,
        "type": kind,
        "subject": subject,
        "occurred_at": occurred,
        "received_at": received,
        "data": event.data,
        "attributes": attributes(request, route.attributes),
    }
    headers = cloud_event(
        event_id=event_id,
        source=route.source,
        type=kind,
        micros=occurred,
        subject=subject,
        trace=trace(request),
    )
    return Sighting(event_id, identity, values, headers)


def unreadable(
    problem: Unreadable, route: Route, request: Request, raw_topic: str
) -> tuple[str, str, Headers]:
    """Event id, key and headers of the dead letter that keeps the body as it was sent."""
    event_id = str(uuid7())
    identity = fingerprint(route.provider, route.scope, of_bytes(request.body))
    original = [
        (name, clean(value).encode())
        for name in ("content-type", "content-encoding", *route.hook.attributes)
        if (value := request.headers.get(name))
    ]
    beside = cloud_event(
        event_id=event_id,
        source=route.source,
        type="unreadable",
        micros=(request.received_at - EPOCH) // MICROSECOND,
        trace=trace(request),
    )
    original += [(name, value) for name, value in beside if name != "content-type"]
    reason = deadletter.Reason(
        stage="ingest",
        code="unreadable",
        message=f"an authentic delivery for source {route.source} makes no event: {problem}",
        next="look at the body with headgate dlq show, correct the sender, and let it send again",
        exception=type(problem).__name__,
        topic=raw_topic,
        fingerprint=identity,
        event_id=event_id,
    )
    return event_id, identity, deadletter.headers(reason, original, request.received_at)


def attributes(request: Request, names: tuple[str, ...]) -> Mapping[str, str]:
    """The headers that are allowed through."""
    found = {}
    get = request.headers.get
    for name in names:
        value = get(name)
        if value is not None:
            found[name] = clean(value, LONGEST_ATTRIBUTE)
    return found


def trace(request: Request) -> str | None:
    """Our span in the sender's trace, where it sent a well-formed one."""
    sent = request.headers.get("traceparent")
    return child_traceparent(sent) if sent and TRACEPARENT.fullmatch(sent) else None


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text that fits a header and a terminal: no control characters, nothing but UTF-8, not endless."""
    if text.isprintable() and len(text) <= longest:
        return text
    return "".join(one if one.isprintable() else "\ufffd" for one in text[:longest])
