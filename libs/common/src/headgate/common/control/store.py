"""Triggers and sources as they lie on their topics: reading all of them, writing some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from headgate.common.errors import Poison
from headgate.common.model import Source, Stored, Trigger

from .connection import Connection, Outgoing
from .problems import dotted
from .scan import Scan

Kind = Literal["Trigger", "Source"]
AnyStored = Stored[Trigger] | Stored[Source]
MODELS: dict[Kind, type[Trigger] | type[Source]] = {"Trigger": Trigger, "Source": Source}


@dataclass(frozen=True)
class State:
    """Everything that is configured at one moment. `unreadable` names records that nobody can read."""

    triggers: dict[str, Stored[Trigger]] = field(default_factory=dict)
    sources: dict[str, Stored[Source]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    def of(self, kind: Kind) -> dict[str, AnyStored]:
        return dict(self.triggers) if kind == "Trigger" else dict(self.sources)


def topic_of(connection: Connection, kind: Kind) -> str:
    return connection.topics.triggers if kind == "Trigger" else connection.topics.sources


def read_state(connection: Connection) -> State:
    """Both topics from their beginning to their end: they are small, and compacted."""
    scan = Scan(connection)
    state = State()
    kept: dict[Kind, dict[str, Any]] = {"Trigger": {}, "Source": {}}
    for kind in kept:
        for record in scan.records(scan.whole(topic_of(connection, kind))):
            kept[kind][(record.key or b"").decode(errors="replace")] = record.value
    for kind, values in kept.items():
        for name, value in values.items():
            if value is None:
                continue
            try:
                decoded = connection.codec.decode(f"{kind}Record", value)
                if kind == "Trigger":
                    state.triggers[name] = Stored.of(decoded, Trigger)
                else:
                    state.sources[name] = Stored.of(decoded, Source)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                state.unreadable[f"{kind.lower()}/{name}"] = f"{dotted(first['loc'])}: {first['msg']}"
            except (Poison, KeyError) as error:
                state.unreadable[f"{kind.lower()}/{name}"] = str(error).splitlines()[0]
    return state


def outgoing(connection: Connection, kind: Kind, name: str, stored: AnyStored | None) -> Outgoing:
    """The record that stores a document, or deletes it."""
    value = connection.codec.encode(f"{kind}Record", stored.record()) if stored else None
    return Outgoing(topic_of(connection, kind), name.encode(), value)


def write(connection: Connection, kind: Kind, changes: Iterable[tuple[str, AnyStored | None]]) -> None:
    """Stores or deletes documents of one kind; returns when the broker has them all."""
    connection.write([outgoing(connection, kind, name, stored) for name, stored in changes])
