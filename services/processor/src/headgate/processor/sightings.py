"""Who saw a fingerprint first: the value of the dedupe table, and the rule that no crash can turn into a loss.

The table remembers *where* an event was read, not *that* it was. The event at exactly those coordinates
passes, and passes again when it is read again, since its first attempt may have died half done; every other
one is a repeat. All times are the broker's, so that no clock of ours or of a producer's moves the window.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

VERSION = 1
MOST = 100
"""Of one fingerprint. A value must fit in a record of the changelog, whatever producers choose to repeat."""
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


def first(
    sightings: Sightings, listens: Callable[[str], bool], now_millis: int, window_millis: int
) -> Sighting | None:
    """The sighting that counts for a trigger: the first of its own sources within its window."""
    since = now_millis - window_millis
    for sighting in sightings:
        if sighting.millis >= since and listens(sighting.source):
            return sighting
    return None


def remember(
    sightings: Sightings, here: Sighting, shortest_millis: int, longest_millis: int
) -> Sightings | None:
    """The list with `here` in it, or None when the table need not change.

    `here` joins unless its source was seen within the shortest window of the triggers that listen to it: then
    each of them has its first sighting already. What even the longest window has passed leaves the list.

    A full list gives up its source's oldest, behind which there are later ones; a source that is new to it does
    not join, and its events pass each time. The run's id is the same each time, so that nothing is lost by either.
    """
    if not sightings:
        return (here,)
    alive = here.millis - longest_millis
    recent = here.millis - shortest_millis
    for sighting in sightings:
        if sighting.same_place(here):
            return None
        if sighting.source == here.source and sighting.millis >= recent:
            return None
    kept = [sighting for sighting in sightings if sighting.millis >= alive]
    if len(kept) >= MOST:
        oldest = next((one for one in kept if one.source == here.source), None)
        if oldest is None:
            return None
        kept.remove(oldest)
    return (*kept, here)
