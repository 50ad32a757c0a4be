"""What a polling provider writes: a config model, a cursor, `fetch`, and one `SOURCE = Source(...)`.

No loop, clock, sleep, retry, log line, metric, secret or Kafka: those exist once, in the runtime
around it. `fetch` is pure given the client: same answers and same cursor, same page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Self, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field

from headgate.common.errors import BadItem
from headgate.common.secrets import SecretRef


class Auth(BaseModel):
    """The credential of a source, by reference; the runtime puts it on the requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: Annotated[SecretRef, Field(description="Where the token is: {env: NAME} or {file: PATH}.")]
    header: Annotated[str, Field(description="Header that carries it.")] = "Authorization"
    scheme: Annotated[
        str | None,
        Field(description="Word before the token; default: the provider's own, mostly Bearer. Empty: none."),
    ] = None


class SourceConfig(BaseModel):
    """What a user writes under `query`. Every field has a description: it is the form, the page, the help."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: Annotated[
        str | None,
        Field(
            description="Where the provider lives, when it is not its public address (a server of your own)."
        ),
    ] = None
    auth: Annotated[Auth | None, Field(description="The credential, by reference.")] = None


class Cursor(BaseModel):
    """How far a provider's list has been read. It is stored as JSON, so it holds plain values only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def start(cls, at: datetime) -> Self:
        """Where reading begins when nothing is stored: every start-up mode reduces to an instant."""
        raise NotImplementedError

    @property
    def watermark(self) -> datetime | None:
        """The instant up to which everything was read; None when the provider's token is opaque."""
        return None

    @property
    def place(self) -> Hashable:
        """What must not come twice within a turn. A cursor that also counts leaves its counts out here."""
        return self

    def rewound(self, by: timedelta) -> Self:
        """The same cursor a little earlier, and at the beginning of a list: where the next turn asks from.

        A cursor that holds a page number or link drops it here: the list has moved since.
        """
        return self


@dataclass(frozen=True)
class Event:
    """One thing that happened, before anybody gave it a fingerprint."""

    key: str
    """Changes exactly once per reportable change; with provider and source it is the fingerprint."""
    type: str
    data: Any
    occurred_at: datetime | None = None
    """By the provider's clock, and the time its cursor follows; None where the provider tells none."""
    subject: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


C = TypeVar("C", bound=Cursor)
K = TypeVar("K", bound=SourceConfig)


@dataclass(frozen=True)
class Page(Generic[C]):
    """One answer of the provider: the events on it, the cursor after it, and whether to ask again at once."""

    events: Sequence[Event]
    next: C
    more: bool = False
    bad: Sequence[BadItem] = ()
    """Items that cannot become events. They go to the dead-letter topic; the page goes on."""


Fetch = Callable[[httpx.AsyncClient, K, C], Awaitable[Page[C]]]


@dataclass(frozen=True)
class Source(Generic[K, C]):
    """A polling provider, whole."""

    name: str
    config: type[K]
    cursor: type[C]
    fetch: Fetch[K, C]
    base_url: str
    """Where the provider lives; a `base_url` in the config or its integration goes before it."""
    overlap: timedelta = timedelta(seconds=120)
    """How far behind the cursor each turn asks again: some back ends list a change late."""
    every: timedelta = timedelta(seconds=60)
    """The pause between turns when the user names none."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request: media type, API version."""
    auth_scheme: str = "Bearer"
    """The word before the token in `Authorization`."""


def each(items: Iterable[Any], to_event: Callable[[Any], Event]) -> tuple[list[Event], list[BadItem]]:
    """The items as events, and those that cannot be: one bad item never costs the page."""
    events: list[Event] = []
    bad: list[BadItem] = []
    for item in items:
        try:
            events.append(to_event(item))
        except BadItem as error:
            bad.append(error)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            bad.append(BadItem(f"the item has not the expected shape: {type(error).__name__}: {error}", item))
    return events, bad


def key_of_bad(item: Any) -> str:
    """The identity of an item nobody could read: its content."""
    text = json.dumps(item, sort_keys=True, ensure_ascii=False, default=str)
    return "bad:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
