"""Promises of every engine, found by looking at the package; then what is particular to HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from headgate.common.model import Action
from headgate.common.topics import Topics
from headgate.runner import engines
from headgate.runner.engines import Engine, Exists, Means, Refused, Retry, Run, Started, excerpt
from headgate.runner.settings import RunnerOptions, RunnerSettings


class Sent:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Any]] = []

    def send(self, topic: str, *, key: Any, value: Any, headers: Any = None) -> asyncio.Future[None]:
        self.records.append((topic, key))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def means(tmp_path: Path, **options: Any) -> Means:
    settings = RunnerSettings(state_dir=tmp_path / "state", runner=RunnerOptions(**options))
    return Means(settings, Topics(), Sent())  # type: ignore[arg-type]


@pytest.fixture
async def loaded(tmp_path: Path) -> AsyncIterator[dict[str, Engine]]:
    found = engines.load(means(tmp_path))
    yield found
    for one in found.values():
        await one.close()


def run(action: dict[str, Any], run_id: str = "r-1", data: Any = None) -> Run:
    return Run(
        run_id=run_id,
        trigger="t",
        trigger_revision=1,
        action=Action.model_validate(action).config,
        event={
            "id": "e-1", "fingerprint": "f", "source": "s", "provider": "p", "type": "happened", "subject": None,
            "time": "2026-01-01T00:00:00Z", "received_at": "2026-01-01T00:00:00Z",
            "data": {"id": 1} if data is None else data, "attributes": {},
        },
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    )  # fmt: skip


class Server:
    """Answers as told and keeps the requests."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[web.Request, bytes]] = []
        self.known: set[str] = set()
        self.answer: Callable[[web.Request], web.StreamResponse] | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        if self.answer is not None:
            return self.answer(request)
        run_id = request.headers["Idempotency-Key"]
        status = 409 if run_id in self.known else 201
        self.known.add(run_id)
        return web.json_response({"id": "w-1"}, status=status)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", made.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/runs"
    yield made
    await runner.cleanup()


def good(name: str, server: Server) -> dict[str, Any]:
    """An action that works, for every engine. A new engine adds its line."""
    actions: dict[str, dict[str, Any]] = {
        "http": {"http": {"url": server.url, "body": {"id": "{{ event.data.id }}"}}},
        "local": {"local": {"note": "{{ event.data.id }}"}},
    }
    return actions[name]


def test_every_engine_has_an_action_model_of_its_name() -> None:
    assert set(engines.names()) == set(Action.model_fields)


@pytest.mark.parametrize("name", engines.names())
async def test_starting_twice_starts_once_and_says_so(
    name: str, loaded: dict[str, Engine], server: Server
) -> None:
    assert isinstance(await loaded[name].start(run(good(name, server))), Started)
    assert isinstance(await loaded[name].start(run(good(name, server))), Exists)
    assert isinstance(await loaded[name].start(run(good(name, server), "r-2")), Started)


@pytest.mark.parametrize("name", engines.names())
async def test_a_new_process_still_knows_the_runs(name: str, tmp_path: Path, server: Server) -> None:
    for expected in (Started, Exists):
        again = engines.load(means(tmp_path))
        assert isinstance(await again[name].start(run(good(name, server))), expected)
        for one in again.values():
            await one.close()


@pytest.mark.parametrize("name", engines.names())
async def test_a_template_that_cannot_be_filled_is_refused_with_the_way_out(
    name: str, loaded: dict[str, Engine], server: Server
) -> None:
    outcome = await loaded[name].start(run(good(name, server), data={"other": 1}))
    assert isinstance(outcome, Refused)
    assert outcome.code == "template-error"
    assert "`event.data.id` is undefined" in outcome.reason
    assert "replay" in outcome.next


@pytest.mark.parametrize("name", engines.names())
async def test_many_at_once_of_one_run_start_one(
    name: str, loaded: dict[str, Engine], server: Server
) -> None:
    outcomes = await asyncio.gather(*(loaded[name].start(run(good(name, server))) for _ in range(20)))
    assert [type(outcome) for outcome in outcomes].count(Started) == 1
    assert [type(outcome) for outcome in outcomes].count(Exists) == 19


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, Started), (201, Started), (202, Started), (204, Started), (208, Exists), (409, Exists),
        (408, Retry), (429, Retry), (500, Retry), (502, Retry), (503, Retry), (504, Retry),
        (400, Refused), (401, Refused), (403, Refused), (404, Refused), (410, Refused), (422, Refused),
        (301, Refused), (302, Refused), (307, Refused), (308, Refused),
    ],
)  # fmt: skip
async def test_each_status_has_its_meaning(
    status: int, kind: type[Any], loaded: dict[str, Engine], server: Server
) -> None:
    headers = {"Location": server.url} if 300 <= status < 400 else {}
    server.answer = lambda _: web.Response(status=status, headers=headers)
    outcome = await loaded["http"].start(run(good("http", server)))
    assert isinstance(outcome, kind)
    assert len(server.requests) == 1, "a redirect was followed, or a request repeated behind our back"


async def test_retry_after_is_passed_on(loaded: dict[str, Engine], server: Server) -> None:
    server.answer = lambda _: web.Response(status=429, headers={"Retry-After": "7"})
    outcome = await loaded["http"].start(run(good("http", server)))
    assert isinstance(outcome, Retry)
    assert outcome.after_seconds == 7


async def test_the_request_carries_the_run_id_the_trace_and_secret_headers(
    loaded: dict[str, Engine], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_TOKEN", "s3cr3t-canary")
    action = {
        "http": {
            "url": server.url,
            "method": "PUT",
            "headers": {"Authorization": {"env": "ENGINE_TOKEN"}, "X-Kind": "{{ event.type }}"},
        }
    }
    server.answer = lambda request: web.Response(
        status=400, text=f"bad token {request.headers['Authorization']}\r\nsee docs"
    )
    outcome = await loaded["http"].start(run(action, data={"id": 1}))
    request, body = server.requests[0]
    assert request.method == "PUT"
    assert request.headers["Idempotency-Key"] == "r-1"
    assert request.headers["traceparent"].startswith("00-aaaa")
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Authorization"] == "s3cr3t-canary"
    assert request.headers["X-Kind"] == "happened"
    assert json.loads(body)["data"] == {"id": 1}, "without a body template the event itself is sent"
    assert isinstance(outcome, Refused)
    assert outcome.reason == "the engine answered 400: bad token *** see docs"
    assert "canary" not in repr(outcome)


async def test_an_event_cannot_add_headers(loaded: dict[str, Engine], server: Server) -> None:
    action = {"http": {"url": server.url, "headers": {"X-Title": "{{ event.data.title }}"}}}
    await loaded["http"].start(run(action, data={"title": "a\r\nIdempotency-Key: other\r\n\r\n"}))
    request, _ = server.requests[0]
    assert request.headers.getall("Idempotency-Key") == ["r-1"]
    assert request.headers["X-Title"] == "a Idempotency-Key: other"


async def test_a_missing_secret_is_asked_for_again_and_named(
    loaded: dict[str, Engine], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGINE_TOKEN", raising=False)
    action = {"http": {"url": server.url, "headers": {"Authorization": {"env": "ENGINE_TOKEN"}}}}
    outcome = await loaded["http"].start(run(action))
    assert isinstance(outcome, Retry)
    assert "ENGINE_TOKEN" in outcome.reason
    assert not server.requests


async def test_a_lost_reply_is_unknown_and_asked_again(loaded: dict[str, Engine], server: Server) -> None:
    def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.answer = drop
    outcome = await loaded["http"].start(run(good("http", server)))
    assert isinstance(outcome, Retry)
    assert "may have been started" in outcome.reason


async def test_an_engine_that_does_not_listen_is_asked_again(loaded: dict[str, Engine]) -> None:
    outcome = await loaded["http"].start(run({"http": {"url": "http://127.0.0.1:9/"}}))
    assert isinstance(outcome, Retry)
    assert "cannot connect" in outcome.reason


async def test_a_slow_engine_times_out_and_is_asked_again(tmp_path: Path) -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/", never)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = engines.load(means(tmp_path))
    action = {"http": {"url": f"http://127.0.0.1:{runner.addresses[0][1]}/", "timeout": "50ms"}}
    outcome = await found["http"].start(run(action))
    assert isinstance(outcome, Retry)
    assert "no answer within 0.05 s" in outcome.reason
    for one in found.values():
        await one.close()
    await runner.cleanup()


async def test_metadata_addresses_are_refused_for_good(loaded: dict[str, Engine]) -> None:
    outcome = await loaded["http"].start(run({"http": {"url": "http://169.254.169.254/latest"}}))
    assert isinstance(outcome, Refused)
    assert outcome.code == "address-denied"


async def test_private_addresses_are_refused_where_the_setting_says_so(
    tmp_path: Path, server: Server
) -> None:
    found = engines.load(means(tmp_path, allow_private=False))
    outcome = await found["http"].start(run(good("http", server)))
    assert isinstance(outcome, Refused)
    assert outcome.code == "address-denied"
    for one in found.values():
        await one.close()


async def test_a_huge_answer_is_cut_and_control_characters_go(
    loaded: dict[str, Engine], server: Server
) -> None:
    server.answer = lambda _: web.Response(status=201, body=b"\x1b[31m" + b"x" * 1_000_000)
    outcome = await loaded["http"].start(run(good("http", server)))
    assert isinstance(outcome, Started)
    assert len(outcome.answer) == 500
    assert "\x1b" not in outcome.answer


STRANGE = {
    "a location of stray bytes": b"HTTP/1.1 201 Created\r\nLocation: /runs/\xe9\r\nContent-Length: 0\r\n\r\n",
    "half a character as id": b'HTTP/1.1 201 Created\r\nContent-Length: 15\r\n\r\n{"id":"\\ud800"}',
    "a redirect to stray bytes": b"HTTP/1.1 302 Found\r\nLocation: /runs/\xe9\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("reply", STRANGE.values(), ids=STRANGE)
async def test_whatever_an_engine_says_can_be_recorded(reply: bytes, loaded: dict[str, Engine]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        outcome = await loaded["http"].start(run({"http": {"url": url}}))
    assert not isinstance(outcome, Retry)
    for word in vars(outcome).values():
        word.encode()


def test_excerpts_hide_secrets_before_they_cut() -> None:
    assert excerpt("x" * 495 + "secret", ("secret",)) == "x" * 495 + "***"
