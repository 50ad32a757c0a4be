"""What every provider in `sources/` promises. A new one needs a case in `cases/` and no line here."""

from __future__ import annotations

import ast
import inspect
import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ValidationError

from headgate.common import avro
from headgate.common.catalogue import plug_ins
from headgate.common.errors import (
    AuthRejected,
    HeadgateError,
    Misconfigured,
    RateLimited,
    Transient,
    Unreachable,
)
from headgate.common.model import Source as Document
from headgate.common.sources.poll import Poll, Pollers
from headgate.common.sources.position import Position
from headgate.common.sources.provider import Cursor, Page, Source
from headgate.common.sources.publish import raw_event
from headgate.common.sources.turn import take_turn
from headgate.common.testing.clocks import FixedClock
from headgate.common.testing.memory import Crash, Memory
from headgate.poller import sources

CASES = Path(__file__).parent / "cases"
PROVIDERS: dict[str, Source[Any, Any]] = plug_ins(sources, "SOURCE")
ALLOWED_IMPORTS = {"headgate.common.sources", "httpx", "pydantic"}
CLOCKS = {"now", "utcnow", "today", "time", "monotonic", "sleep"}

each_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
Handler = Callable[[httpx.Request], httpx.Response]


def case(provider: Source[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / f"{provider.name}.json").read_text("utf-8"))
    return found


def replay(provider: Source[Any, Any]) -> Handler:
    """Answers each request with the recorded one of its path whose parameters it has, the closest first."""
    recorded = [(httpx.URL(one["path"]), one) for one in case(provider)["conversation"]]
    recorded.sort(key=lambda pair: -len(pair[0].params))

    def answer(request: httpx.Request) -> httpx.Response:
        for url, one in recorded:
            if url.path == request.url.path and set(url.params.items()) <= set(request.url.params.items()):
                return httpx.Response(one["status"], headers=one["headers"], json=one["body"])
        raise AssertionError(f"nothing recorded for {request.url}")

    return answer


def document(provider: Source[Any, Any], **config: Any) -> Document:
    return Document.model_validate(
        {
            "metadata": {"name": "under-test"},
            "provider": provider.name,
            "config": {**case(provider)["config"], **config},
        }
    )


def opened(provider: Source[Any, Any], handler: Handler, **config: Any) -> Poll:
    """The source as the service opens it, on recorded answers instead of the network."""
    pollers = Pollers(PROVIDERS, FixedClock(), [], transport=lambda: httpx.MockTransport(handler))
    return pollers.open(document(provider, **config))


def start(provider: Source[Any, Any]) -> Position:
    at = datetime.fromisoformat(case(provider)["start"])
    return Position(provider.cursor.start(at))


async def turn(provider: Source[Any, Any], memory: Memory, position: Position | None = None) -> Position:
    poll = opened(provider, replay(provider))
    try:
        return await take_turn(poll, position or memory.saved or start(provider), memory.publish, memory.save)
    finally:
        await poll.close()


@each_provider
def test_it_has_a_recorded_case_with_its_origin(provider: Source[Any, Any]) -> None:
    assert case(provider)["events"] >= 3
    assert len(case(provider)["conversation"]) >= 2, "a case has at least two pages"
    assert f"{provider.name}.json" in (CASES / "SOURCES.md").read_text("utf-8")


@each_provider
def test_every_field_is_described(provider: Source[Any, Any]) -> None:
    def walk(model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name} has no description"
            for part in [field.annotation, *getattr(field.annotation, "__args__", ())]:
                if inspect.isclass(part) and issubclass(part, BaseModel):
                    walk(part)

    walk(provider.config)


@each_provider
def test_its_documentation_renders(provider: Source[Any, Any]) -> None:
    assert inspect.cleandoc(provider.config.__doc__ or "").startswith("Fires ")
    assert (inspect.getmodule(provider.fetch).__doc__ or "").strip()
    assert json.dumps(provider.config.model_json_schema())


@each_provider
def test_unknown_fields_are_refused(provider: Source[Any, Any]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        provider.config.model_validate({**case(provider)["config"], "no_such_field": 1})
    with pytest.raises(Misconfigured, match="no_such_field"):
        opened(provider, replay(provider), no_such_field=1)


@each_provider
async def test_it_drains_every_page_and_stops_with_no_key_twice(provider: Source[Any, Any]) -> None:
    memory = Memory()
    await turn(provider, memory)
    assert len(memory.keys) == len(set(memory.keys)) == case(provider)["events"]
    assert memory.bad == []


@each_provider
async def test_a_second_turn_over_the_same_answers_publishes_nothing(provider: Source[Any, Any]) -> None:
    memory = Memory()
    await turn(provider, memory)
    await turn(provider, memory)
    assert len(memory.keys) == case(provider)["events"]


@each_provider
async def test_the_same_answers_and_cursor_give_the_same_page(provider: Source[Any, Any]) -> None:
    cursor = start(provider).cursor
    poll = opened(provider, replay(provider))
    assert await poll.page(cursor) == await poll.page(cursor)
    await poll.close()


@each_provider
async def test_its_cursors_survive_json(provider: Source[Any, Any]) -> None:
    poll, cursor, more = opened(provider, replay(provider)), start(provider).cursor, True
    while more:
        page = await poll.page(cursor)
        assert provider.cursor.model_validate_json(page.next.model_dump_json()) == page.next
        cursor, more = page.next, page.more
    assert cursor.rewound(timedelta(0)) == cursor, "a finished turn leaves no page number behind"
    await poll.close()


@each_provider
async def test_nothing_is_saved_when_publishing_fails(provider: Source[Any, Any]) -> None:
    memory = Memory()

    async def fails(page: Page[Cursor]) -> None:
        raise Unreachable("no broker")

    poll = opened(provider, replay(provider))
    with pytest.raises(Unreachable):
        await take_turn(poll, start(provider), fails, memory.save)
    assert memory.saved is None
    await poll.close()


@each_provider
async def test_a_crash_between_any_two_steps_loses_nothing(provider: Source[Any, Any]) -> None:
    whole = Memory()
    await turn(provider, whole)
    for edge in range(whole.edges):
        memory = Memory(crash_at=edge)
        with pytest.raises(Crash):
            await turn(provider, memory)
        passed = memory.saved.known if memory.saved else {}
        assert set(passed) <= set(memory.keys), f"crash {edge}: the position knows what is not stored"
        memory.crash_at = None
        await turn(provider, memory)
        assert set(memory.keys) == set(whole.keys), f"crash {edge}: an event is missing"


@each_provider
@pytest.mark.parametrize(
    ("status", "headers", "word"),
    [
        (401, {}, AuthRejected),
        (429, {"retry-after": "7"}, RateLimited),
        (429, {}, RateLimited),
        (503, {"retry-after": "7"}, RateLimited),
        (503, {}, Transient),
        (500, {}, Transient),
        (408, {}, Transient),
        (404, {}, Misconfigured),
        (400, {}, Misconfigured),
    ],
)
async def test_a_status_becomes_its_word_and_names_the_provider(
    provider: Source[Any, Any], status: int, headers: dict[str, str], word: type[HeadgateError]
) -> None:
    poll = opened(provider, lambda _: httpx.Response(status, headers=headers, json={"message": "no"}))
    with pytest.raises(word, match=provider.name) as raised:
        await poll.page(start(provider).cursor)
    if headers and isinstance(raised.value, RateLimited):
        assert raised.value.retry_after_seconds == 7
    await poll.close()


@each_provider
@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<html>maintenance</html>"),
        httpx.Response(200, content=b'[{"id": 1'),
        httpx.Response(200, content=b"\xff\xfe\x00[", headers={"content-type": "application/json"}),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, content=b" " * 20_000_000),
        httpx.Response(200, content=b""),
    ],
    ids=["html", "truncated", "charset", "deep", "large", "empty"],
)
async def test_an_answer_that_is_no_json_is_transient_and_moves_nothing(
    provider: Source[Any, Any], answer: httpx.Response
) -> None:
    poll = opened(provider, lambda _: httpx.Response(200, content=answer.content, headers=answer.headers))
    with pytest.raises(Transient):
        await poll.page(start(provider).cursor)
    await poll.close()


@each_provider
async def test_items_of_any_shape_cost_only_themselves(provider: Source[Any, Any]) -> None:
    """The recorded items stand where they stand; strange ones are put between them."""
    strange: list[Any] = [None, 7, "x", [], {}, {"updated_at": 5, "changed": []}]

    def answer(request: httpx.Request) -> httpx.Response:
        response = replay(provider)(request)
        body = response.json()
        items = body
        for step in case(provider).get("items", []):
            items = items[step]
        items.extend(strange)
        return httpx.Response(200, json=body, headers={"date": response.headers["date"]})

    page = await opened(provider, answer).page(start(provider).cursor)
    assert page.events
    assert len(page.bad) == len(strange)


@each_provider
async def test_its_events_fit_the_schema(provider: Source[Any, Any]) -> None:
    memory = Memory()
    await turn(provider, memory)
    for event in memory.published:
        record = raw_event(document(provider), event, datetime(2026, 11, 18, tzinfo=UTC))
        assert avro.decode(avro.schema("RawEvent"), avro.encode(avro.schema("RawEvent"), 1, record)) == record
        assert event.occurred_at is None or event.occurred_at.tzinfo is not None


@each_provider
async def test_the_token_reaches_the_provider_and_nothing_that_is_printed(
    provider: Source[Any, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary-5f1d"
    monkeypatch.setenv("CONTRACT_TOKEN", canary)
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["authorization"])
        return httpx.Response(401, json={"message": f"bad token {canary}"})

    with caplog.at_level(logging.DEBUG):
        poll = opened(provider, answer, auth={"secret": {"env": "CONTRACT_TOKEN"}})
        with pytest.raises(AuthRejected) as raised:
            await poll.page(start(provider).cursor)
    assert sent == [f"{provider.auth_scheme} {canary}"]
    assert canary not in f"{raised.value} {raised.value!r} {vars(poll)} {caplog.text}"
    await poll.close()


@each_provider
async def test_the_token_does_not_follow_a_redirect_to_another_server(
    provider: Source[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTRACT_TOKEN", "canary")
    seen: list[tuple[str, bool]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, "authorization" in request.headers))
        return httpx.Response(301, headers={"location": "https://elsewhere.example/"})

    poll = opened(provider, answer, auth={"secret": {"env": "CONTRACT_TOKEN"}})
    with pytest.raises(Misconfigured, match="circle"):
        await poll.page(start(provider).cursor)
    assert seen[0][1]
    assert not any(authorised for host, authorised in seen if host == "elsewhere.example")
    await poll.close()


@each_provider
def test_its_module_imports_the_kernel_only_and_reads_no_clock(provider: Source[Any, Any]) -> None:
    module = inspect.getmodule(provider.fetch)
    assert module is not None
    tree = ast.parse(inspect.getsource(module))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    foreign = {name for name in imported if name and name.partition(".")[0] not in sys.stdlib_module_names}
    assert foreign <= ALLOWED_IMPORTS
    called = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not called & CLOCKS, "the clock is the runtime's"


def test_a_case_without_a_provider_is_a_mistake() -> None:
    assert {path.stem for path in CASES.glob("*.json")} == set(PROVIDERS)
