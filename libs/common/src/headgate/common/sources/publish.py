"""From a provider's events to stored records: `publish` returns when the broker has all of a page."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from uuid_utils import uuid7

from headgate.common import deadletter
from headgate.common.errors import BadItem, TooLarge
from headgate.common.fingerprints import fingerprint
from headgate.common.headers import cloud_event
from headgate.common.model import Source
from headgate.common.producer import Producer
from headgate.common.registry import Codec
from headgate.common.sources.clock import Clock
from headgate.common.sources.provider import Cursor, Event, Page, key_of_bad
from headgate.common.sources.times import micros
from headgate.common.topics import MAX_RECORD_BYTES, Topics

Json = dict[str, Any]
T = TypeVar("T")

AT_ONCE = 1_000
"""Records of a page under way together: a list of any length must not fill the producer's queue."""
LARGEST_LETTER_BYTES = 4 * 1024 * 1024
"""A larger item is buried as its beginning: the dead-letter topic has a limit too."""


def raw_event(source: Source, event: Event, received_at: datetime) -> Json:
    """An event as RawEvent: one sighting, with an id of its own."""
    return {
        "id": str(uuid7()),
        "fingerprint": fingerprint(source.provider, source.scope, event.key),
        "source": source.name,
        "provider": source.provider,
        "type": event.type,
        "subject": event.subject,
        "occurred_at": micros(event.occurred_at or received_at),
        "received_at": micros(received_at),
        "data": json.dumps(event.data, ensure_ascii=False, allow_nan=False),
        "attributes": dict(event.attributes),
    }


class Publisher:
    """Writes pages to the raw topic, and what cannot be an event to the dead-letter topic."""

    def __init__(self, producer: Producer, codec: Codec, topics: Topics, service: str, clock: Clock) -> None:
        self._producer = producer
        self._codec = codec
        self._topics = topics
        self._service = service
        self._clock = clock

    async def publish(self, source: Source, page: Page[Cursor]) -> None:
        """Send and wait for all: acknowledged means that every one of them is stored."""
        now = self._clock.now()
        for events in _portions(page.events):
            await asyncio.gather(*[self._send(source, event, now) for event in events])
        for items in _portions(page.bad):
            await asyncio.gather(*[self._bury(source, item, now) for item in items])

    def _send(self, source: Source, event: Event, now: datetime) -> asyncio.Future[Any]:
        try:
            record = raw_event(source, event, now)
            value = self._codec.encode("RawEvent", record)
            if len(value) > MAX_RECORD_BYTES:
                raise TooLarge(f"the event has {len(value)} bytes; the limit is {MAX_RECORD_BYTES}")
        except (TooLarge, TypeError, ValueError) as error:
            return self._bury(source, BadItem(f"the item cannot become an event: {error}", event.data), now)
        headers = cloud_event(
            event_id=record["id"],
            source=source.name,
            type=event.type,
            micros=record["occurred_at"],
            subject=event.subject,
        )
        return self._producer.send(self._topics.raw, key=record["fingerprint"], value=value, headers=headers)

    def _bury(self, source: Source, error: BadItem, now: datetime) -> asyncio.Future[Any]:
        """One item to the dead-letter topic, as the JSON the provider gave."""
        print_ = fingerprint(source.provider, source.scope, key_of_bad(error.item))
        value, kind, cut = json.dumps(error.item, default=str).encode(), b"application/json", ""
        if len(value) > LARGEST_LETTER_BYTES:
            cut = f" (cut: the first MiB of {len(value)} bytes, SHA-256 {hashlib.sha256(value).hexdigest()})"
            value, kind = value[:MAX_RECORD_BYTES], b"application/octet-stream"
        reason = deadletter.Reason(
            stage=self._service,
            code="bad-item",
            message=f"source {source.name} ({source.provider}): {error}{cut}",
            next="correct the source's key or time field, or the item at its origin; the page went on without it",
            topic=self._topics.raw,
            fingerprint=print_,
        )
        original = [("content-type", kind), ("ce_source", f"/headgate/{source.name}".encode())]
        headers = deadletter.headers(reason, original, now)
        return self._producer.send(self._topics.dlq, key=print_, value=value, headers=headers)


def _portions(many: Sequence[T]) -> Iterator[Sequence[T]]:
    return (many[start : start + AT_ONCE] for start in range(0, len(many), AT_ONCE))
