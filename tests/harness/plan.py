"""What is sent: the class of each event is a pure function of (seed, sequence number), so a red run can be repeated.

Out of a hundred events ten repeat an earlier one, five are refused by the condition and two are poison.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    NEW = "new"
    DUPLICATE = "duplicate"
    FILTERED = "filtered"
    POISON = "poison"


class Door(StrEnum):
    """How an event comes in; the door is part of its identity."""

    GITHUB = "github"
    GENERIC = "generic"
    JSON = "json"
    STRUCTURED = "structured"
    BINARY = "binary"
    AVRO = "avro"
    POLLED = "polled"

    @property
    def pushed(self) -> bool:
        """Events come to us; what is polled has to be fetched."""
        return self is not Door.POLLED

    @property
    def webhook(self) -> bool:
        return self in (Door.GITHUB, Door.GENERIC)


PUSHED = tuple(door for door in Door if door.pushed)


class Poison(StrEnum):
    NOT_JSON = "not-json"
    """Signed, and not JSON: accepted as bytes, dead-lettered by the processor."""
    CONDITION = "condition"
    """The condition fails on it: a string where a number is compared."""
    ENGINE = "engine"
    """The engine answers 400."""
    BAD_MAGIC = "bad-magic"
    """A record whose first byte belongs to no format."""


@dataclass(frozen=True)
class Planned:
    seq: int
    kind: Kind
    door: Door
    origin: int
    """The sequence number whose identity this carries: its own, unless it is a duplicate."""
    poison: Poison | None = None
    subject: int = 0
    """One of a few entities, for order per key."""


@dataclass(frozen=True)
class Shares:
    duplicates: float = 0.10
    filtered: float = 0.05
    poison: float = 0.02


TOKEN = re.compile(rb"hg(\d{4})-(\d{6})")


def token(seed: int, seq: int) -> str:
    """The mark an event carries through every topic and into the engine."""
    return f"hg{seed:04d}-{seq:06d}"


def find_token(data: bytes | None) -> tuple[int, int] | None:
    """(seed, seq) of the first token in some bytes."""
    found = TOKEN.search(data or b"")
    return (int(found[1]), int(found[2])) if found else None


class Plan:
    """The events of one seed."""

    def __init__(
        self,
        seed: int,
        doors: tuple[Door, ...] = (Door.GITHUB, Door.GENERIC),
        shares: Shares | None = None,
        poisons: tuple[Poison, ...] = tuple(Poison),
    ) -> None:
        self.seed = seed
        self.doors = doors
        self.shares = shares or Shares()
        self.poisons = poisons

    def __getitem__(self, seq: int) -> Planned:
        """The event of this number, always the same one."""
        dice = random.Random(f"{self.seed}/{seq}")
        roll, back = dice.random(), dice.randint(1, 40)
        own = Planned(seq, Kind.NEW, dice.choice(self.doors), seq, subject=dice.randint(0, 7))
        shares = self.shares
        if roll < shares.duplicates:
            return self._repeat(own, seq - back)
        if roll < shares.duplicates + shares.filtered:
            return replace(own, kind=Kind.FILTERED)
        if roll < shares.duplicates + shares.filtered + shares.poison:
            return replace(own, kind=Kind.POISON, poison=dice.choice(self._poisons_of(own.door)))
        return own

    def _repeat(self, own: Planned, seq: int) -> Planned:
        """A repeat of what `seq` is about, or a new event when that one is not worth repeating."""
        earlier = self[seq] if seq >= 0 else own
        if earlier.seq == own.seq or earlier.kind not in (Kind.NEW, Kind.DUPLICATE):
            return own
        return replace(earlier, seq=own.seq, kind=Kind.DUPLICATE)

    def _poisons_of(self, door: Door) -> tuple[Poison, ...]:
        impossible = {Poison.BAD_MAGIC} if door.webhook else {Poison.NOT_JSON}
        if not door.pushed:
            impossible = {Poison.BAD_MAGIC, Poison.NOT_JSON}
        return tuple(poison for poison in self.poisons if poison not in impossible) or self.poisons
