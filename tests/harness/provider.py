"""An outside system with a list that can be polled: a `since`, pages that follow on an item rather than on a number,
and items that only ever come at the list's end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

SOURCE = "items"
PAGE = 10
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Item:
    """Something in the list. `at` grows from item to item."""

    mark: str
    at: datetime
    data: dict[str, Any]

    @property
    def micros(self) -> int:
        return int(self.at.timestamp() * 1_000_000)


def fingerprint_of_item(mark: str) -> str:
    return f"json/{SOURCE}:{mark}"


class Provider:
    """`async with Provider(port) as provider: provider.add(mark, data)`"""

    def __init__(self, port: int) -> None:
        self.port = port
        self.items: list[Item] = []
        app = web.Application()
        app.add_routes([web.get("/items", self._list)])
        self._runner = web.AppRunner(app, access_log=None)

    def add(self, mark: str, data: dict[str, Any]) -> None:
        """Put an item at the end of the list."""
        now = datetime.now(UTC)
        at = max(now, self.items[-1].at + TICK) if self.items else now
        self.items.append(Item(mark, at, data))

    def documents(self) -> dict[str, Any]:
        """The source, as it stands in a trigger."""
        return {
            "name": SOURCE,
            "provider": "json",
            "schedule": {"every": "1s"},
            "startup": {"backfill": "1h"},
            "config": {
                "url": f"http://127.0.0.1:{self.port}/items",
                "items": "items",
                "key": ["id"],
                "time": "at",
                "since": {"param": "since"},
                "paging": {"style": "cursor", "path": "next", "param": "after"},
            },
        }

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        since = datetime.fromisoformat(request.query["since"])
        after = int(request.query.get("after", "0"))
        rest = [item for item in self.items if item.at >= since and item.micros > after]
        items = [{"id": item.mark, "at": item.at.isoformat(), **item.data} for item in rest[:PAGE]]
        following = str(rest[PAGE - 1].micros) if len(rest) > PAGE else None
        return web.json_response({"items": items, "next": following})
