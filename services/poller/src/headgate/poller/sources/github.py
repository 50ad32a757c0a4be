"""GitHub issues, in the order in which they changed."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self

import httpx
from pydantic import Field

from headgate.common.sources import (
    Cursor,
    Event,
    Misconfigured,
    Page,
    RateLimited,
    Source,
    SourceConfig,
    check,
    each,
    moment,
    not_after,
    origin,
    retry_after,
    until,
)

SECONDARY_LIMIT_SECONDS = 60.0
"""GitHub asks for at least a minute when it limits without saying for how long."""


class Issues(SourceConfig):
    """Fires when an issue of a repository is opened or changes: title, labels, state, assignees, comments."""

    owner: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$",
            description="User or organisation.",
            examples=["octo-org"],
        ),
    ]
    repo: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$",
            description="Repository.",
            examples=["octo-repo"],
        ),
    ]
    labels: Annotated[
        list[str], Field(description="Only issues with all of these labels.", examples=[["bug"]])
    ] = []
    page_size: Annotated[
        int,
        Field(
            ge=1, le=100, description="Issues asked for in one request.", json_schema_extra={"advanced": True}
        ),
    ] = 100


class Since(Cursor):
    """The newest `updated_at` that was read. The rest is set only within a second that fills more than a page."""

    since: datetime
    link: str | None = None
    seen: int = 0
    """How many issues of this second this pass over its pages has met."""
    before: int | None = None
    """How many the pass before met."""

    @classmethod
    def start(cls, at: datetime) -> Self:
        return cls(since=at.astimezone(UTC).replace(microsecond=0))

    @property
    def watermark(self) -> datetime:
        return self.since

    @property
    def place(self) -> tuple[datetime, str | None, int | None]:
        return self.since, self.link, self.before

    def rewound(self, by: timedelta) -> Self:
        return type(self)(since=self.since - by)


async def fetch(client: httpx.AsyncClient, config: Issues, cursor: Since) -> Page[Since]:
    """A page by key: the next one asks from the last change on, since the numbers of later pages move
    while issues change. Only a page that ends in the second it began with is followed by its link.
    """
    if cursor.link is not None:
        response = await client.get(cursor.link)
    else:
        query = {
            "state": "all",
            "sort": "updated",
            "direction": "asc",
            "since": stamp(cursor.since),
            "per_page": str(config.page_size),
            **({"labels": ",".join(config.labels)} if config.labels else {}),
        }
        response = await client.get(f"repos/{config.owner}/{config.repo}/issues", params=query)
    items = answer(config, response)
    events, bad = each([item for item in items if not is_pull_request(item)], to_event)
    last = max(cursor.since, not_after(response, newest(items, cursor.since)))
    link = next_link(client, response)
    following = within_a_second(cursor, items, last, link)
    ahead = following or Since(since=last)
    return Page(events=events, bad=bad, next=ahead, more=following is not None or link is not None)


def within_a_second(cursor: Since, items: list[Any], last: datetime, link: str | None) -> Since | None:
    """The cursor that stays in the cursor's second, or None when all of that second has been read.

    Pages of one second are numbered, and an issue that changes meanwhile leaves the second and moves the
    rest up, past a page border. So the second is read again until two passes meet the same number of
    issues: none left in the pass before that this one did not account for, so this one missed none.
    """
    seen = cursor.seen + sum(1 for item in items if not_after_second(item, cursor.since))
    if last <= cursor.since and link is not None:
        return Since(since=cursor.since, link=link, seen=seen, before=cursor.before)
    if cursor.link is not None and seen != cursor.before:
        return Since(since=cursor.since, before=seen)
    return None


def not_after_second(item: Any, since: datetime) -> bool:
    """Whether an item belongs to the second (one without a readable time is counted wherever it stands)."""
    try:
        return moment(item["updated_at"]) <= since
    except (KeyError, TypeError, ValueError):
        return True


def to_event(item: Any) -> Event:
    """The list names no change, only the issue and when it last changed: `updated_at` is the one change id
    there is. Two changes within a second are one event, which shows the later state. A webhook tells of
    each of them by a delivery id that no list has, so a trigger on both ways in hears of an issue twice.
    """
    return Event(
        key=f"issue:{item['node_id']}:{item['updated_at']}",
        type="issue",
        occurred_at=moment(item["updated_at"]),
        subject=f"#{item['number']}",
        data=item,
    )


def is_pull_request(item: Any) -> bool:
    """GitHub lists pull requests among the issues."""
    return isinstance(item, dict) and "pull_request" in item


def newest(items: list[Any], since: datetime) -> datetime:
    """The last change on the page, pull requests included: they hold their place in the order."""
    found = [since]
    for item in items:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            found.append(moment(item["updated_at"]))
    return max(found)


def answer(config: Issues, response: httpx.Response) -> list[Any]:
    """The items, with GitHub's own ways of refusing told apart: it uses 403 for limits, 404 for hidden."""
    repository = f"{config.owner}/{config.repo}"
    limited = "retry-after" in response.headers or response.headers.get("x-ratelimit-remaining") == "0"
    if response.status_code == 429 or (
        response.status_code == 403 and (limited or "rate limit" in response.text.lower())
    ):
        raise RateLimited(
            f"github limits requests ({response.status_code}, {repository})", limit_seconds(response)
        )
    if response.status_code in (404, 410):
        raise Misconfigured(
            f"github shows no issues of {repository} ({response.status_code}): it does not exist, its issues are "
            f"off, or the credential may not read it (Issues: read). Correct the source; an edit starts it again."
        )
    body = check("github", response)
    if not isinstance(body, list):
        raise Misconfigured(
            f"github answered {repository} with {type(body).__name__} where a list of issues belongs"
        )
    return body


def limit_seconds(response: httpx.Response) -> float:
    """How long GitHub wants us to wait: Retry-After, else the reset of a used-up hour, else a minute."""
    ordered = retry_after(response)
    if ordered is None and response.headers.get("x-ratelimit-remaining") == "0":
        reset = response.headers.get("x-ratelimit-reset", "")
        if reset.isdecimal() and len(reset) <= 11:
            ordered = until(response, datetime.fromtimestamp(int(reset), UTC))
    return SECONDARY_LIMIT_SECONDS if ordered is None else ordered


def next_link(client: httpx.AsyncClient, response: httpx.Response) -> str | None:
    """The Link header's next page, if it stays with the server we asked."""
    found = response.links.get("next", {}).get("url")
    if found is None:
        return None
    if origin(httpx.URL(found)) != origin(client.base_url):
        raise Misconfigured(
            f"github's next page is on another server ({httpx.URL(found).host}); not followed"
        )
    return found


def stamp(at: datetime) -> str:
    """An instant as GitHub reads it."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


SOURCE = Source(
    name="github",
    config=Issues,
    cursor=Since,
    fetch=fetch,
    base_url="https://api.github.com",
    headers={"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"},
)
