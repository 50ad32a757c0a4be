"""Any list that an HTTP API returns as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

import httpx
from pydantic import BaseModel, ConfigDict, Field

from headgate.common.sources import (
    Cursor,
    Event,
    Misconfigured,
    Page,
    Source,
    SourceConfig,
    check,
    each,
    joined,
    moment,
    not_after,
    origin,
)

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
            description="Field with the time of change. Without one the whole list counts as new at the first poll.",
            examples=["updated_at"],
        ),
    ] = None
    type: Annotated[str, Field(min_length=1, max_length=200, description="event.type of what is found.")] = (
        "item"
    )
    subject: Annotated[Path | None, Field(description="Field that names the thing, as event.subject.")] = None
    since: Annotated[SinceParameter | None, Field(description="How the API is asked for what is new.")] = None
    paging: Annotated[
        Paging | None, Field(description="How to the next page; without it there is one page.")
    ] = None


class Window(Cursor):
    """Everything up to `since` was read. Within a window, the next page and the newest time so far: lists
    come in any order, so `since` moves only when the last page was read."""

    since: datetime
    newest: datetime | None = None
    page: str | None = None

    @classmethod
    def start(cls, at: datetime) -> Self:
        return cls(since=at)

    @property
    def watermark(self) -> datetime:
        return self.since

    def rewound(self, by: timedelta) -> Self:
        return type(self)(since=self.since - by)


async def fetch(client: httpx.AsyncClient, config: Items, cursor: Window) -> Page[Window]:
    """One page of the window. What is older than `since` is left out, also where the API cannot be asked to."""
    response = await client.get(**request(config, cursor))
    body = check("json", response)
    items = at_path(body, config.items)
    if not isinstance(items, list):
        raise Misconfigured(
            f"json: there is no list at '{config.items or '$'}' in the answer of {response.url.host}; set `items`"
        )
    events, bad = each(items, lambda item: to_event(config, item))
    times = [event.occurred_at for event in events if event.occurred_at is not None]
    newest = not_after(response, max([*times, cursor.newest or cursor.since]))
    following = next_page(config, cursor, response, body, items)
    ahead = (
        Window(since=max(newest, cursor.since))
        if following is None
        else Window(since=cursor.since, newest=newest, page=following)
    )
    fresh = [event for event in events if event.occurred_at is None or event.occurred_at >= cursor.since]
    return Page(events=fresh, bad=bad, next=ahead, more=following is not None)


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
