"""Which triggers an event concerns: found by its source, so that only those are asked that listen to it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from headgate.common.conditions import Condition
from headgate.common.conditions import compile as compile_condition
from headgate.common.conditions import expression as compile_expression
from headgate.common.model import EventMatch, Stored, Trigger
from headgate.common.model.kinds import EVENTS

FOREIGN = f"{EVENTS}:"
"""In the table, in front of the source of what other systems produce: no name of ours has a colon."""
_REMEMBERED = 10_000
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The two bits that a UUID of version 5 has set in this digit."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A trigger as the processor needs it: compiled once a revision, asked for each event."""

    name: str
    uid: str
    revision: int
    enabled: bool
    window_millis: int
    condition: Condition | None = None
    order_by: Condition | None = None
    sources: frozenset[str] = frozenset()
    matches: tuple[EventMatch, ...] = ()
    _namespace: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, stored: Stored[Trigger]) -> Listener:
        spec = stored.spec
        written = list(enumerate(spec.sources))
        return cls(
            name=stored.name,
            uid=stored.uid,
            revision=stored.revision,
            enabled=spec.enabled,
            window_millis=int(spec.dedupe.window.total_seconds() * 1000),
            condition=compile_condition(spec.when) if spec.when else None,
            order_by=compile_expression(spec.policy.order_by) if spec.policy.order_by else None,
            sources=frozenset(
                spec.source_name(index) for index, source in written if source.provider != EVENTS
            ),
            matches=tuple(source.match or EventMatch() for _, source in written if source.provider == EVENTS),
            _namespace=uuid.UUID(stored.uid).bytes,
        )

    def run_id(self, fingerprint: str) -> str:
        """`fingerprints.run_id`, with the namespace parsed already."""
        text = hashlib.sha1(self._namespace + fingerprint.encode(), usedforsecurity=False).hexdigest()
        variant = _VARIANT[text[16]]
        return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"

    def listens(self, key: str) -> bool:
        """Whether a sighting's source, as the table holds it, is one of this trigger's own."""
        if key.startswith(FOREIGN):
            source = key[len(FOREIGN) :]
            return any(fnmatchcase(source, match.source) for match in self.matches)
        return key in self.sources

    def wants_foreign(self, source: str, type: str) -> bool:
        return any(
            fnmatchcase(source, match.source) and fnmatchcase(type, match.type) for match in self.matches
        )


def key_of(provider: str, source: str) -> str:
    """An event's source as the table holds it."""
    return FOREIGN + source if provider == EVENTS else source


class Triggers:
    """All triggers, indexed by source. Immutable: a change of any makes a new one."""

    def __init__(self, listeners: Iterable[Listener] = (), least_window_millis: int = 0) -> None:
        self._by_name = {listener.name: listener for listener in listeners}
        ordered = [self._by_name[name] for name in sorted(self._by_name)]
        self._by_source: dict[str, tuple[Listener, ...]] = {}
        for listener in ordered:
            for source in listener.sources:
                self._by_source[source] = (*self._by_source.get(source, ()), listener)
        self._matching = [listener for listener in ordered if listener.matches]
        self._found: dict[tuple[str, str], tuple[Listener, ...]] = {}
        self.longest_window_millis = max(
            [least_window_millis, *(listener.window_millis for listener in ordered)]
        )
        """After so long a sighting means nothing to any trigger, and may be swept."""

    def get(self, name: str) -> Listener | None:
        return self._by_name.get(name)

    def __len__(self) -> int:
        return len(self._by_name)

    def candidates(self, provider: str, source: str, type: str) -> tuple[Listener, ...]:
        """The triggers that listen to this event's source, by name."""
        if provider != EVENTS:
            return self._by_source.get(source, ())
        found = self._found.get((source, type))
        if found is None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            found = tuple(one for one in self._matching if one.wants_foreign(source, type))
            self._found[source, type] = found
        return found
