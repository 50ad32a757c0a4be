"""Any list that an HTTP API returns as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

import httpx
from pydantic import BaseModel, ConfigDict, Field

from headgate.common.sources import (
    MAX_REMEMBERED,
    Cursor,
    Event,
    Misconfigured,
    Page,
    Source,
    SourceConfig,
    Transient,
    check,
    each,
    joined,
    moment,
    not_after,
    origin,
)

MOST_READINGS = 10
"""Of a list that does not hold still, in one turn."""
Path = Annotated[str, Field(pattern=r"^(\$\.?)?[^\s.\[\]]*([.\[][^\s.\[\]]+\]?)*$")]
"""`data.items`, `$.data.items` or `pages[0].items`; empty or `$` is the whole."""


class SinceParameter(BaseModel):
    """How the API is asked for what is new."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    param: Annotated[str, Field(description="Name of the query parameter.", examples=["updated_after"])]
    format: Annotated[
        Literal["iso", "epoch", "epoch_ms"],
        Field(description="ISO 8601, or seconds or milliseconds since 1970."),
    ] = "iso"


class Paging(BaseModel):
    """How to the next page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    style: Annotated[
        Literal["link", "next_url", "cursor", "page"],
        Field(
            description="link: the Link header. next_url: an address in the body. cursor: a token in the body. "
            "page: numbers, until a page is empty."
        ),
    ]
    path: Annotated[
        Path, Field(description="Where address or token stand in the body.", examples=["meta.next"])
    ] = "next"
    param: Annotated[str, Field(description="Query parameter that takes the token or the number.")] = "page"
    first: Annotated[int, Field(ge=0, description="Number of the first page.")] = 1


class Items(SourceConfig):
    """Fires for items that are new, or changed, in a list."""

    url: Annotated[
        str, Field(description="Address of the list.", examples=["https://api.example.com/tickets"])
    ]
    headers: Annotated[dict[str, str], Field(description="Headers to send; secrets belong in `auth`.")] = {}
    params: Annotated[dict[str, str], Field(description="Query parameters to send.")] = {}
    items: Annotated[
        Path,
        Field(
            description="Where the list stands in the answer; empty: it is the answer.",
            examples=["data.items"],
        ),
    ] = ""
    key: Annotated[
        list[Path],
        Field(
            min_length=1,
            description="Fields that together change exactly once per change: the id, or id and time of change.",
            examples=[["id", "updated_at"]],
        ),
    ] = ["id"]
    time: Annotated[
        Path | None,
        Field(
            description="Field with the time of change. Without one the whole list counts as new at the first poll, "
            f"and may hold {MAX_REMEMBERED} items.",
            examples=["updated_at"],
        ),
    ] = None
    type: Annotated[str, Field(min_length=1, max_length=200, description="event.type of what is found.")] = (
        "item"
    )
    subject: Annotated[Path | None, Field(description="Field that names the thing, as event.subject.")] = None
    since: Annotated[SinceParameter | None, Field(description="How the API is asked for what is new.")] = None
    paging: Annotated[
        Paging | None,
        Field(
            description="How to the next page; without it there is one page. A list of several pages with a `time` is "
            "read until two readings agree, so that nothing is skipped when it moves between two requests."
        ),
    ] = None


class Window(Cursor):
    """Everything up to `since` was read. The rest is set only within a list of several pages: they come in any
    order, so `since` moves when the last page was read, and the same was met when all were read before."""

    since: datetime
    newest: datetime | None = None
    page: str | None = None
    last: tuple[int, ...] = ()
    """The marks of the items of the page before."""
    count: int = 0
    """Items met in this reading so far."""
    met: int = 0
    """The sum of their marks, of the items up to `upto`."""
    reading: int = 1
    upto: datetime | None = None
    """The newest time of the first reading. Of what has an earlier one, later readings can only meet less."""
    before: int | None = None
    """The sum of the reading before."""

    @classmethod
    def start(cls, at: datetime) -> Self:
        return cls(since=at)

    @property
    def watermark(self) -> datetime:
        return self.since

    @property
    def place(self) -> Hashable:
        return self.since, self.page, self.reading

    def rewound(self, by: timedelta) -> Self:
        return type(self)(since=self.since - by)


async def fetch(client: httpx.AsyncClient, config: Items, cursor: Window) -> Page[Window]:
    """One page of the window. What is older than `since` is left out, also where the API cannot be asked to."""
    response = await client.get(**request(config, cursor))
    body = answer(cursor, response)
    items = at_path(body, config.items)
    if not isinstance(items, list):
        raise Misconfigured(
            f"json: there is no list at '{config.items or '$'}' in the answer of {response.url.host}; set `items`"
        )
    events, bad = each(items, lambda item: to_event(config, item))
    times = [event.occurred_at for event in events if event.occurred_at is not None]
    newest = not_after(response, max([*times, cursor.newest or cursor.since]))
    count = cursor.count + len(items)
    if config.time is None and count > MAX_REMEMBERED:
        raise Misconfigured(
            f"json: a list of more than {MAX_REMEMBERED} items and no `time`: what is new cannot be told from what "
            f"was seen. Set `time`, or ask for less by `params`"
        )
    here = tuple(mark(event) for event in events)
    following = next_page(config, cursor, response, body, items)
    if following is not None and here and set(here) == set(cursor.last):
        raise Transient(
            "json: a page holds the same items as the one before; the turn ends here and nothing is skipped. "
            "Check `paging.param`: the API may not know it"
        )
    met = cursor.met + len(bad) + sum(mark(event) for event in events if counts(cursor, event))
    if following is not None:
        step = {"newest": newest, "page": following, "last": here, "count": count, "met": met}
        ahead = cursor.model_copy(update=step)
    elif config.time is None or (cursor.page is None and cursor.reading == 1) or met == cursor.before:
        ahead = Window(since=max(cursor.upto or newest, cursor.since))
    elif cursor.reading == MOST_READINGS:
        raise Transient(
            f"json: the list moved through {MOST_READINGS} readings; what was found is published, and it is read "
            f"again. Ask for less by `since` or `params`"
        )
    else:
        upto = cursor.upto or newest
        ahead = Window(since=cursor.since, upto=upto, before=met, reading=cursor.reading + 1)
    fresh = [event for event in events if event.occurred_at is None or event.occurred_at >= cursor.since]
    return Page(events=fresh, bad=bad, next=ahead, more=ahead.page is not None or ahead.reading > 1)


def counts(cursor: Window, event: Event) -> bool:
    """Whether an item is one that this reading is compared by, met for the first time.

    Where pages are numbered, an item that leaves the list or changes moves the rest up, past a page border: nobody
    meets the first of the next page. What left after it was met is missing from the next reading, so two readings
    of one sum say that nothing left during the first of them, and that it met everything. What comes new moves
    the rest down instead, and some are met again on the next page.
    """
    known = cursor.upto is None or event.occurred_at is None or event.occurred_at <= cursor.upto
    return known and mark(event) not in cursor.last


def mark(event: Event) -> int:
    """A number that stands for an item as it is."""
    name = f"{event.key} {event.occurred_at}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()[:6], "big")


def answer(cursor: Window, response: httpx.Response) -> Any:
    """The body. 410 is told apart: our position is a time, which nobody can have forgotten."""
    if response.status_code == 410 and cursor.page is not None:
        raise Transient("json: the API has forgotten the page we asked for (410); the list is read again")
    if response.status_code == 410:
        raise Misconfigured(
            f"json: the list is gone (410 from {response.url.host}). Correct the address; an edit starts it again"
        )
    return check("json", response)


def request(config: Items, cursor: Window) -> dict[str, Any]:
    """What to ask: an address that the API gave, or the list's own with its parameters."""
    if cursor.page is not None and config.paging and config.paging.style in ("link", "next_url"):
        return {"url": cursor.page, "headers": config.headers}
    params = dict(config.params)
    if config.since is not None:
        params[config.since.param] = written(cursor.since, config.since.format)
    if config.paging is not None and config.paging.style == "page":
        params[config.paging.param] = cursor.page or str(config.paging.first)
    elif config.paging is not None and cursor.page is not None:
        params[config.paging.param] = cursor.page
    return {"url": config.url, "params": params or None, "headers": config.headers}


def next_page(
    config: Items, cursor: Window, response: httpx.Response, body: Any, items: list[Any]
) -> str | None:
    """The next page's address, token or number; None at the end."""
    match config.paging:
        case None:
            return None
        case Paging(style="page"):
            return str(int(cursor.page or config.paging.first) + 1) if items else None
        case Paging(style="cursor"):
            token = at_path(body, config.paging.path)
            return None if token in (None, "", False) else str(token)
        case Paging(style="link"):
            found = response.links.get("next", {}).get("url")
        case _:
            found = at_path(body, config.paging.path)
    if not found:
        return None
    address = response.url.join(str(found))
    if origin(address) != origin(response.url):
        raise Misconfigured(f"json: the next page is on another server ({address.host}); not followed")
    return str(address)


def to_event(config: Items, item: Any) -> Event:
    """An item as an event; a missing key or an unreadable time makes it a bad item."""
    subject = at_path(item, config.subject) if config.subject else None
    *first, last = (scalar(item, path) for path in config.key)
    if not last and not any(first):
        raise ValueError(f"the key ({', '.join(config.key)}) is empty: all such items would be taken for one")
    return Event(
        key=joined(first, last),
        type=config.type,
        occurred_at=moment(at_path(item, config.time)) if config.time else None,
        subject=None if subject is None else str(subject),
        data=item,
    )


def scalar(item: Any, path: str) -> str:
    """A part of the key, as text."""
    value = at_path(item, path)
    if value is None or isinstance(value, (dict, list)):
        raise ValueError(f"the key field '{path}' is missing or no plain value")
    return str(value)


def at_path(body: Any, path: str | None) -> Any:
    """The value at a dotted path; None where the path leads nowhere."""
    steps = (path or "").removeprefix("$").replace("[", ".").replace("]", "").split(".")
    for step in filter(None, steps):
        if isinstance(body, dict):
            body = body.get(step)
        elif isinstance(body, list) and step.isdecimal() and int(step) < len(body):
            body = body[int(step)]
        else:
            return None
    return body


def written(at: datetime, form: Literal["iso", "epoch", "epoch_ms"]) -> str:
    """An instant as the API wants it. Rounded down: asking for too much is safe."""
    if form == "iso":
        return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    unit = timedelta(seconds=1) if form == "epoch" else timedelta(milliseconds=1)
    return str((at - datetime(1970, 1, 1, tzinfo=UTC)) // unit)


SOURCE = Source(name="json", config=Items, cursor=Window, fetch=fetch, base_url="")
