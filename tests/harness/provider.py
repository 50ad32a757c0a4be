"""An outside system with a list that can be polled: pages, a `since`, and items that only ever come at its end."""

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
                "paging": {"style": "page"},
            },
        }

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        since = datetime.fromisoformat(request.query["since"])
        first = (int(request.query.get("page", "1")) - 1) * PAGE
        found = [item for item in self.items if item.at >= since][first : first + PAGE]
        items = [{"id": item.mark, "at": item.at.isoformat(), **item.data} for item in found]
        return web.json_response({"items": items})
