"""Who saw a fingerprint first: the value of the dedupe table, and the rule that no crash can turn into a loss.

The table remembers *where* an event was read, not *that* it was. The event at exactly those coordinates
passes, and passes again when it is read again, since its first attempt may have died half done; every other
one is a repeat. All times are the broker's, so that no clock of ours or of a producer's moves the window.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

VERSION = 1
_ENTRY = struct.Struct(">BHqqH")
"""Topic code, partition, offset, broker time in ms, length of the source's name; the name follows."""
_ONLY = struct.Struct(">BBHqqH")
"""The version and an entry: most lists have just one."""


class Sighting(NamedTuple):
    """Where and when a source's event was read."""

    source: str
    topic: int
    """Code of the topic: what a partition's events are read from, by number, to keep the table small."""
    partition: int
    offset: int
    millis: int

    def same_place(self, other: Sighting) -> bool:
        return self.offset == other.offset and self.partition == other.partition and self.topic == other.topic


Sightings = tuple[Sighting, ...]
"""In the order in which they were first seen."""

MOST = 100
"""Of one fingerprint. A value must fit in a record of the changelog, whatever producers choose to repeat. What
is forgotten for it may pass again, to the same run."""


class Hearer(Protocol):
    """A trigger, as far as its window goes."""

    @property
    def window_millis(self) -> int: ...

    def listens(self, key: str) -> bool: ...


def encode(sightings: Sightings) -> bytes:
    if len(sightings) == 1:
        ((source, topic, partition, offset, millis),) = sightings
        name = source.encode()
        return _ONLY.pack(VERSION, topic, partition, offset, millis, len(name)) + name
    parts = [bytes((VERSION,))]
    for source, topic, partition, offset, millis in sightings:
        name = source.encode()
        parts.append(_ENTRY.pack(topic, partition, offset, millis, len(name)))
        parts.append(name)
    return b"".join(parts)


def decode(value: bytes) -> Sightings:
    """ValueError when the bytes are not ours: the table is then rebuilt, never guessed at."""
    if not value or value[0] != VERSION:
        raise ValueError("not a list of sightings of this version")
    found, at = [], 1
    try:
        while at < len(value):
            topic, partition, offset, millis, length = _ENTRY.unpack_from(value, at)
            at += _ENTRY.size
            name = value[at : at + length]
            if len(name) != length:
                raise ValueError("a list of sightings ends in the middle of a name")
            at += length
            found.append(Sighting(name.decode(), topic, partition, offset, millis))
    except struct.error as problem:
        raise ValueError("a list of sightings ends in the middle of an entry") from problem
    return tuple(found)


def newest_millis(value: bytes) -> int:
    """When a fingerprint was last counted as new, without building the list: the sweeper asks for each."""
    newest, at, end = 0, 1, len(value)
    while at + _ENTRY.size <= end:
        _, _, _, millis, length = _ENTRY.unpack_from(value, at)
        newest = max(newest, millis)
        at += _ENTRY.size + length
    return newest


def counting(sightings: Sightings, listens: Callable[[str], bool], window_millis: int) -> Iterator[Sighting]:
    """The sightings that are new to a trigger: the first of its own sources, and the first after each window
    that the one before it began."""
    closes: int | None = None
    for sighting in sightings:
        if (closes is None or sighting.millis > closes) and listens(sighting.source):
            closes = sighting.millis + window_millis
            yield sighting


def remember(
    sightings: Sightings, here: Sighting, hearers: Iterable[Hearer], settled: Callable[[Sighting], bool]
) -> Sightings | None:
    """The list with `here` in it, or None when the table need not change.

    `here` joins when its source is new to the list, or when it is new to one of `hearers`, the triggers that
    listen to its source. In a full list it takes the place of the oldest, if that is `settled`: what came of it
    is stored, so that it need not pass again. Otherwise it does not join.
    """
    if not sightings:
        return (here,)
    longer = (*sightings, here)
    known = False
    for sighting in sightings:
        if sighting.same_place(here):
            return None
        known = known or sighting.source == here.source
    if known and not any(_new_to(hearer, longer) for hearer in hearers):
        return None
    if len(longer) <= MOST:
        return longer
    return longer[1:] if settled(longer[0]) else None


def _new_to(hearer: Hearer, sightings: Sightings) -> bool:
    """Whether the last of the list counts."""
    last = sightings[-1]
    return any(one is last for one in counting(sightings, hearer.listens, hearer.window_millis))
