"""A record that came on another partition than its fingerprint's is written once more, to the re-keyed topic.

The copy says in headers where the record first stood and what key it had, so that its event keeps one id and
its dead letter is what was really sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.common import fingerprints
from headgate.common.headers import Headers, text

ORIGIN = "headgate-origin"
"""Header of a copy: where the record first stood, as topic/partition/offset."""
ORIGIN_KEY = "headgate-origin-key"
"""Header of a copy: the key it had there. Absent when it had none."""

RawHeaders = Sequence[tuple[str, bytes]]

_PLACE = re.compile(r"(.+)/([0-9]{1,9})/([0-9]{1,18})", re.DOTALL)
_COPIES = ".events.rekeyed"
"""How the name of the one topic ends that has copies. Elsewhere their headers are a stranger's word."""


@dataclass(frozen=True, slots=True)
class Original:
    """A record as its producer wrote it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: Headers


def copy_headers(original: Original) -> Headers:
    """The headers of the copy."""
    place = f"{original.topic}/{original.partition}/{original.offset}".encode()
    added = [(ORIGIN, place)]
    if original.key is not None:
        added.append((ORIGIN_KEY, original.key))
    return [*_without(original.headers), *added]


def original_of(copy: Original, copied_from: str) -> Original:
    """What a copy was made from; a record that is no copy is its own original.

    Copies are made from one topic only. Another one's name is a stranger's word, and a replay of the dead letter
    would write his bytes there.
    """
    place = _place(text(copy.headers, ORIGIN))
    if place is None or place[0] != copied_from:
        return copy
    before = next((value for name, value in copy.headers if name == ORIGIN_KEY), None)
    return Original(*place, before, _without(copy.headers))


def foreign_event_id(
    headers: Iterable[tuple[str, bytes | None]], topic: str, partition: int, offset: int
) -> str:
    """The id of an event whose producer gave it none of ours: derived from where the record first stood."""
    origin = _place(text(headers, ORIGIN)) if topic.endswith(_COPIES) else None
    return fingerprints.foreign_event_id(*(origin or (topic, partition, offset)))


def _place(origin: str | None) -> tuple[str, int, int] | None:
    parts = _PLACE.fullmatch(origin or "")
    return (parts[1], int(parts[2]), int(parts[3])) if parts else None


def _without(headers: RawHeaders) -> Headers:
    return [header for header in headers if header[0] not in (ORIGIN, ORIGIN_KEY)]
