"""What an HTTP answer means for the runtime: one function from status to error word."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx

from headgate.common.errors import AuthRejected, CursorExpired, Misconfigured, RateLimited, Transient
from headgate.common.sources.times import http_date


def check(provider: str, response: httpx.Response) -> Any:
    """The body as JSON, or the error word of the status, naming the provider and what to do.

    Providers handle their own quirks before they call this.
    """
    status = response.status_code
    where = f"{response.request.url.host}{response.request.url.path}"
    if status == 401:
        raise AuthRejected(
            f"{provider} rejected the credential (401 from {where}). Store a valid one where `auth` points to; "
            f"the source asks again every 15 minutes."
        )
    if status == 429 or (status == 503 and "retry-after" in response.headers):
        raise RateLimited(f"{provider} asks us to slow down ({status} from {where})", retry_after(response))
    if status == 410:
        raise CursorExpired(f"{provider} has forgotten our position (410 from {where})")
    if status in (408, 425) or status >= 500:
        raise Transient(f"{provider} has trouble of its own ({status} from {where})")
    if not 200 <= status < 300:
        raise Misconfigured(
            f"{provider} refuses the request ({status} from {where}). Check the source's query and what its "
            f"credential may read; an edit starts it again at once."
        )
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "no content type")
        raise Transient(
            f"{provider} answered {status} without readable JSON ({kind}, from {where})"
        ) from error


def retry_after(response: httpx.Response) -> float | None:
    """Retry-After in seconds, in either of its forms, by the provider's clock; None when there is none."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text[:12])
    return until(response, http_date(text))


def not_after(response: httpx.Response, at: datetime) -> datetime:
    """`at`, or the provider's own now if that is earlier: one item dated into the future must not take
    the cursor past everything that happens until then."""
    date = http_date(response.headers.get("date"))
    return at if date is None else min(at, date)


def until(response: httpx.Response, at: datetime | None) -> float | None:
    """Seconds from the answer's Date to an instant. Without a Date there is no clock to count by."""
    date = http_date(response.headers.get("date"))
    if at is None or date is None:
        return None
    return max(0.0, (at.astimezone(UTC) - date.astimezone(UTC)).total_seconds())
