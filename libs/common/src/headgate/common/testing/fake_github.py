"""A GitHub that lists issues as the real one does: filtered by `since`, ordered by `updated_at`, paged by
Link headers whose numbers move while issues change. It fails when it is told to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], web.StreamResponse]


class FakeGitHub:
    """One repository, `octo-org/octo-repo`."""

    def __init__(
        self, clock: Callable[[], datetime] = lambda: datetime.now(UTC), token: str | None = None
    ) -> None:
        self.clock = clock
        self.token = token
        self.issues: dict[int, dict[str, Any]] = {}
        self.faults: deque[Answer] = deque()
        """Given out one by one, in place of the true answer."""
        self.asked: list[dict[str, str]] = []
        self.before_answer: Callable[[], None] = lambda: None
        self.url = ""

    def put(self, number: int, updated_at: datetime | None = None, **more: Any) -> str:
        """Open or change an issue; returns the key its event will have."""
        at = (updated_at or self.clock()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = self.issues.get(number, {})
        self.issues[number] = {
            "node_id": f"I_{number:08d}",
            "number": number,
            "title": f"Issue {number}",
            "state": "open",
            "labels": [],
            "created_at": before.get("created_at", at),
            **before,
            **more,
            "updated_at": at,
        }
        return f"issue:I_{number:08d}:{at}"

    def keys(self) -> set[str]:
        """The keys of all events that the list can show now."""
        return {
            f"issue:{item['node_id']}:{item['updated_at']}"
            for item in self.issues.values()
            if "pull_request" not in item
        }

    async def _list(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        self.before_answer()
        date = {"Date": format_datetime(self.clock().astimezone(UTC), usegmt=True)}
        if self.faults:
            answer = self.faults.popleft()(request)
            answer.headers.setdefault("Date", date["Date"])
            return answer
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"message": "Bad credentials"}, status=401, headers=date)
        items, following = self.page(request.query)
        headers = dict(date)
        if following:
            address = request.url.origin().join(request.rel_url.update_query(page=str(following)))
            headers["Link"] = f'<{address}>; rel="next"'
        return web.json_response(items, headers=headers)

    def page(self, query: Mapping[str, str]) -> tuple[list[dict[str, Any]], int | None]:
        """The items a request gets, and the number of the next page."""
        size, number = int(query.get("per_page", "30")), int(query.get("page", "1"))
        found = sorted(
            (item for item in self.issues.values() if item["updated_at"] >= query.get("since", "")),
            key=lambda item: (item["updated_at"], item["number"]),
        )
        more = number * size < len(found)
        return found[(number - 1) * size : number * size], number + 1 if more else None

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[FakeGitHub]:
        """On loopback, for as long as the context lasts."""
        app = web.Application()
        app.router.add_get("/repos/octo-org/octo-repo/issues", self._list)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()

    def source(self, name: str = "issues", **more: Any) -> dict[str, Any]:
        """A source document that reads it."""
        config = {"owner": "octo-org", "repo": "octo-repo", "base_url": self.url, **more.pop("config", {})}
        return {
            "apiVersion": "headgate/v1",
            "kind": "Source",
            "metadata": {"name": name},
            "provider": "github",
            "schedule": {"every": "1s"},
            "config": config,
            **more,
        }


def limited(status: int = 429, **headers: str) -> Answer:
    """A refusal for too many requests, with these headers (`retry_after="7"`)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.json_response({"message": "API rate limit exceeded"}, status=status, headers=named)


def broken(status: int = 500, text: str = "<html>oops</html>") -> Answer:
    """A page that is not what it should be."""
    return lambda _: web.Response(status=status, text=text, content_type="text/html")
