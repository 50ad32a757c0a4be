"""What the service answers besides signatures: unknown paths, deadlines, our own trouble, what is no HTTP."""

import asyncio
import json
from typing import Any

import pytest
from annotated_types import Le
from tests.harness.deliveries import BODY, PATH, SECRET, signed
from tests.harness.waiting import until

from headgate.common.errors import Unreachable
from headgate.common.producer import QueueFull
from headgate.ingest_webhook.settings import Limits


async def test_a_repeat_is_published_again_and_only_hinted_at(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    first, second = [await door.post(PATH, signed(), BODY) for _ in range(2)]
    assert (first.status, second.status) == (202, 202)
    assert "duplicate" not in first.words
    assert second.words["duplicate"] is True
    assert [record.key for record in door.outbox.sent] == ["github/repo:d", "github/repo:d"]
    assert first.words["event_id"] != second.words["event_id"]


@pytest.mark.parametrize(
    ("path", "known", "status"),
    [
        ("/webhooks/github/nobody", True, 404),
        ("/webhooks/github/nobody", False, 503),
        ("/webhooks/stripe/repo", True, 404),
        ("/webhooks/nothing/repo", True, 404),
        ("/webhooks/nothing/repo", False, 503),
        ("/webhooks/github/", True, 404),
        ("/webhooks/", True, 404),
        ("/elsewhere", False, 404),
        ("/webhooks/github/repo/", True, 404),
        ("/webhooks/github/repo?token=1", False, 202),
        ("http://hooks.example:8081/webhooks/github/repo?token=1", False, 202),
        ("http://hooks.example/webhooks/github/nobody", False, 503),
        ("http://hooks.example/", False, 404),
    ],
)
async def test_a_path_is_unknown_only_when_the_sources_are_known(
    path: str, known: bool, status: int, open_door: Any, repo: Any
) -> None:
    door = await open_door(repo())
    door.known = known
    answer = await door.post(path, signed(), BODY)
    assert answer.status == status
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_the_deepest_body_that_may_be_allowed_is_taken(open_door: Any, repo: Any) -> None:
    most = next(one.le for one in Limits.model_fields["json_depth"].metadata if isinstance(one, Le))
    door = await open_door(repo(), limits=Limits(json_depth=most))
    for depth, topic in ((most, "headgate.events.raw"), (most + 1, "headgate.events.dlq")):
        body = b"[" * int(depth) + b"]" * int(depth)
        assert (await door.post(PATH, signed(body), body)).status == 202
        assert door.outbox.sent[-1].topic == topic


async def test_only_post_is_taken(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    answer = await door.post(PATH, signed(), BODY, method="PUT")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("problem", [QueueFull("full"), Unreachable("away")])
async def test_a_refused_send_is_503_at_once(problem: Exception, open_door: Any, repo: Any) -> None:
    door = await open_door(repo())

    def refuse() -> None:
        raise problem

    door.outbox.behave = refuse
    answer = await door.post(PATH, signed(), BODY)
    assert (answer.status, door.outbox.sent) == (503, [])
    assert answer.headers["retry-after"]
    assert (await door.post(PATH, signed(b"{"), b"{")).status == 503  # a dead letter is owed the same


async def test_no_answer_before_the_acknowledgement_and_503_at_the_deadline(
    open_door: Any, repo: Any
) -> None:
    door = await open_door(repo(deadline_seconds=0.3))
    acks: list[asyncio.Future[object]] = []

    def later() -> asyncio.Future[object]:
        acks.append(asyncio.get_running_loop().create_future())
        return acks[-1]

    door.outbox.behave = later
    waiting = asyncio.create_task(door.post(PATH, signed(), BODY))
    await until("it is on its way", lambda: bool(acks), seconds=20)
    assert not waiting.done()
    acks[0].set_result(None)
    assert (await waiting).status == 202
    answer = await door.post(PATH, signed(), BODY)
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")


async def test_an_error_of_ours_is_503_and_tells_the_sender_nothing(
    open_door: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await open_door(repo())

    def broken() -> None:
        raise RuntimeError(f"{SECRET} in a message")

    door.outbox.behave = broken
    answer = await door.post(PATH, signed(), BODY)
    assert answer.status == 503
    assert SECRET.encode() not in answer.body


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: canary\x1b\r\n\r\n",
        b"canary\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: canary" + b"a" * 9000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: canary\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nX: canary\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_400_and_neither_logged_nor_echoed(
    sent: bytes,
    open_door: Any,
    repo: Any,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    door = await open_door(repo())
    answer = await door.raw(sent)
    assert answer.status == 400
    assert b"canary" not in answer.body
    assert "canary" not in caplog.text + "".join(capsys.readouterr())


async def test_hostile_headers_reach_the_record_tame(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    hostile = signed(
        BODY,
        ("X-GitHub-Event", b"\xff\xfe" + "\u202e".encode() + b"x" * 2000),
        ("User-Agent", "é\u202e".encode() + b"\x80"),
        ("traceparent", b"00-" + b"\xff" * 52),
        ("Authorization", b"Bearer canary"),
    )
    answer = await door.post(PATH, hostile, BODY)
    assert answer.status == 202
    (record,) = door.outbox.sent
    event = json.loads(record.value)
    event["type"].encode()
    assert event["type"].endswith("opened") or len(event["type"]) <= 500
    assert set(event["attributes"]) == {"user-agent", "x-github-event", "x-github-delivery"}
    assert b"canary" not in record.value
    assert all(value.decode().isprintable() for value in record.headers.values())


async def test_the_trace_of_the_sender_goes_on(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    parent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await door.post(PATH, signed(BODY, ("traceparent", parent)), BODY)
    (record,) = door.outbox.sent
    assert record.headers["traceparent"][:36] == parent[:36]
    assert record.headers["traceparent"] != parent


async def test_a_source_that_is_broken_answers_503_until_its_secret_is_there(
    open_door: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_SECRET")
    monkeypatch.setattr("headgate.ingest_webhook.routes.RETRY_SECONDS", 0.0)
    door = await open_door(repo())
    assert (await door.post(PATH, signed(), BODY)).status == 503
    monkeypatch.setenv("GITHUB_SECRET", SECRET)
    assert (await door.post(PATH, signed(), BODY)).status == 202
