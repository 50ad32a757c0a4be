"""The page that shows how to write a provider shows one that works."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from headgate.common.model import Source as Document
from headgate.common.sources.poll import Pollers
from headgate.common.sources.position import Position
from headgate.common.sources.turn import take_turn
from headgate.common.testing.clocks import FixedClock
from headgate.common.testing.memory import Memory

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-polled-source.md"


async def test_the_example_polls() -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found
    module: dict[str, Any] = {"__name__": "headgate.poller.sources.acme"}
    text = re.sub(r"^   ", "", found[1], flags=re.MULTILINE)
    exec(compile(text, str(PAGE), "exec", dont_inherit=True), module)
    source = module["SOURCE"]
    item = {"id": "T-1", "revision": "3", "changed": "2026-11-18T12:00:00Z"}

    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url).startswith(
            "https://api.acme.example/tickets?project=OPS&changed_from=2026-11-18"
        )
        return httpx.Response(200, json={"tickets": [item], "more": False})

    transport = httpx.MockTransport(answer)
    document = Document.model_validate(
        {"metadata": {"name": "a"}, "provider": "acme", "config": {"project": "OPS"}}
    )
    poll = Pollers({"acme": source}, FixedClock(), [], transport=lambda: transport).open(document)
    memory = Memory()
    start = Position(source.cursor.start(datetime(2026, 11, 18, 11, tzinfo=UTC)))
    await take_turn(poll, start, memory.publish, memory.save)
    assert memory.keys == ["T-1:3"]
