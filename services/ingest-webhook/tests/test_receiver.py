"""What the service answers besides signatures: limits, deadlines, unknown paths, our own trouble."""

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest
from annotated_types import Le

from headgate.common.errors import Unreachable
from headgate.common.producer import QueueFull
from headgate.ingest_webhook.settings import Limits
from headgate.ingest_webhook.telemetry import IN_FLIGHT

SECRET = "canary-5b2e"
BODY = b'{"action":"opened"}'
PATH = "/webhooks/github/repo"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SECRET", SECRET)


def signed(body: bytes = BODY, *more: tuple[str, bytes]) -> list[tuple[str, bytes]]:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return [("X-Hub-Signature-256", f"sha256={signature}".encode()), ("X-GitHub-Delivery", b"d"), *more]


def whole() -> bytes:
    """A delivery on a connection that stays open."""
    lines = "".join(f"{name}: {value.decode()}\r\n" for name, value in signed())
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


@pytest.fixture
def repo(source: Any) -> Any:
    def build(**config: Any) -> Any:
        return source("repo", "github-webhook", {"secrets": [{"env": "GITHUB_SECRET"}], **config})

    return build


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
    await until(lambda: bool(acks))
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


async def test_more_in_flight_than_we_hold_is_503_at_once_and_passes(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1))
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    first = asyncio.create_task(door.post(PATH, signed(), BODY))
    await until(lambda: bool(door.outbox.sent))
    assert (await door.post(PATH, signed(), BODY)).status == 503
    ack.set_result(None)
    assert (await first).status == 202
    assert (await door.post(PATH, signed(), BODY)).status == 202


def begun(size: int, sent: bytes) -> bytes:
    """A delivery that announces more than it has sent."""
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + sent


async def test_bodies_that_are_announced_and_hardly_sent_keep_nobody_out(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(body_bytes=5000, in_flight_bytes=10_000))
    held = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(10)]
    for number, (_, writer) in enumerate(held):
        chunked = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode()
        writer.write(chunked if number % 2 else begun(5000, b"x"))
        await writer.drain()
    await until(lambda: IN_FLIGHT.collect()[0].samples[0].value == 10)
    assert (await door.post(PATH, signed(), BODY)).status == 202
    for _, writer in held:
        writer.close()


async def test_bodies_that_come_in_pieces_take_no_more_than_their_room(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(body_bytes=7000, in_flight_bytes=10_000))
    both = [asyncio.create_task(door.raw(begun(7000, b"x" * 6000))) for _ in range(2)]
    (refused,), (other,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    assert (refused.result().status, refused.result().headers["retry-after"]) == (503, "2")
    other.cancel()
    await until_taken(door)
    body = json.dumps("x" * 6000).encode()
    assert (await door.post(PATH, signed(body), body)).status == 202


async def test_a_source_has_its_own_rate_and_strangers_do_not_spend_it(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(rate_per_second=0.5))
    for _ in range(5):
        assert (await door.post(PATH, signed(b"other"), BODY)).status == 401
    assert (await door.post(PATH, signed(), BODY)).status == 202
    answer = await door.post(PATH, signed(), BODY)
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")
    assert len(door.outbox.sent) == 1


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_413(
    chunked: bool, open_door: Any, repo: Any
) -> None:
    door = await open_door(repo(), limits=Limits(body_bytes=5000))
    for size, status in ((5000, 202), (5001, 413)):
        body = json.dumps("x" * (size - 2)).encode()
        assert (await door.post(PATH, signed(body), body, chunked=chunked)).status == status


async def test_a_form_that_grows_beyond_the_limit_as_json_is_kept_as_it_came(
    open_door: Any, source: Any
) -> None:
    config = {"secrets": [{"env": "GITHUB_SECRET"}], "bearer": {}, "body": "form"}
    door = await open_door(source("form", "generic-webhook", config), limits=Limits(body_bytes=5000))
    headers = [
        ("Authorization", f"Bearer {SECRET}".encode()),
        ("Content-Type", b"application/x-www-form-urlencoded"),
    ]
    for filling, topic in ((b"a", "headgate.events.raw"), (b"\x01", "headgate.events.dlq")):
        body = b"field=" + filling * 4000
        assert (await door.post("/webhooks/generic/form", headers, body)).status == 202
        assert door.outbox.sent[-1].topic == topic
    assert door.outbox.sent[-1].value == body


async def test_an_announced_body_that_is_too_large_is_refused_before_it_is_sent(
    open_door: Any, repo: Any
) -> None:
    door = await open_door(repo())
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\nExpect: 100-continue\r\n\r\n"
    assert (await door.raw(head.encode())).status == 413


async def test_a_sender_that_waits_for_100_continue_gets_it(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    lines = "".join(f"{name}: {value.decode()}\r\n" for name, value in signed())
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n"
    writer.write(head.encode())
    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert await reader.readline() == b"\r\n"
    writer.write(BODY)
    assert b"202" in await reader.readline()
    writer.close()


async def until(check: Any) -> None:
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 what is waited for has no event of its own
            await asyncio.sleep(0.001)


async def until_taken(door: Any) -> None:
    """Deliveries are accepted, perhaps after connections have been noticed to be gone."""
    async with asyncio.timeout(20):
        while True:
            try:
                if (await door.post(PATH, signed(), BODY)).status == 202:
                    return
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(0.01)


QUICK = Limits(header_seconds=0.2, body_seconds=0.3)


@pytest.mark.parametrize(
    "sent", [b"", b"POST /webhooks/github/repo HTT", b"POST / HTTP/1.1\r\nHost: x\r\nX-A: b"]
)
async def test_a_head_that_does_not_come_ends_the_connection(sent: bytes, open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=QUICK)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(sent)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


async def test_a_second_head_that_does_not_come_ends_the_connection_too(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=QUICK)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"}")
    writer.write(b"GET /elsewhere HTTP/1.1\r\nHo")
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


async def test_an_idle_connection_outlives_the_patience_for_a_head(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=QUICK)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    for pause in (0.5, 0):
        writer.write(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 404 Not Found\r\n"
        await reader.readuntil(b"}")
        await asyncio.sleep(pause)
    writer.close()


async def test_a_body_that_does_not_come_is_408(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=QUICK)
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{"
    assert (await door.raw(head.encode())).status == 408
    assert door.outbox.sent == []


async def test_a_body_that_trickles_is_given_up_before_its_time(
    open_door: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.ingest_webhook.body.PATIENCE_SECONDS", 0.1)
    door = await open_door(repo(), limits=Limits(body_seconds=60))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n".encode())

    async def trickle() -> None:
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.02)

    task = asyncio.create_task(trickle())
    async with asyncio.timeout(20):
        assert b"408" in await reader.readline()
    task.cancel()
    writer.close()


async def test_a_sender_that_goes_away_in_its_body_leaves_nothing_behind(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1))
    _, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
    await writer.drain()
    writer.transport.abort()
    await until_taken(door)


async def test_one_address_has_so_many_connections_and_the_next_is_429(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(connections_per_address=2))
    held = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(2)]
    for reader, writer in held:
        writer.write(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"}")
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    assert await reader.readline() == b"HTTP/1.1 429 Too Many Requests\r\n"
    assert b"Retry-After" in await reader.read()
    for _, one in [*held, (reader, writer)]:
        one.close()
    await until_taken(door)


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


async def test_many_deliveries_on_one_connection_are_answered_in_order(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(whole() * 100)
    seen = []
    for _ in range(100):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 202 Accepted\r\n")
        assert b"Date: " in head
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        seen.append(json.loads(await reader.readexactly(length))["event_id"])
    assert seen == [record.headers["ce_id"].decode() for record in door.outbox.sent]
    writer.close()


async def test_a_source_that_is_broken_answers_503_until_its_secret_is_there(
    open_door: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_SECRET")
    monkeypatch.setattr("headgate.ingest_webhook.routes.RETRY_SECONDS", 0.0)
    door = await open_door(repo())
    assert (await door.post(PATH, signed(), BODY)).status == 503
    monkeypatch.setenv("GITHUB_SECRET", SECRET)
    assert (await door.post(PATH, signed(), BODY)).status == 202


@pytest.mark.parametrize("rest", [b"zz\r\n", b"5\r\nab", b"ffffffffffffffffffff\r\n"])
async def test_a_body_that_is_framed_wrongly_is_the_senders_trouble(
    rest: bytes, open_door: Any, repo: Any
) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1, body_seconds=0.5))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".encode()
    assert (await door.raw(head + rest)).status in (400, 408)
    assert door.outbox.sent == []
    await until_taken(door)


async def test_what_comes_while_a_delivery_waits_is_answered_after_it(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    one = whole()
    writer.write(one)
    await until(lambda: len(door.outbox.sent) == 1)
    door.outbox.behave = lambda: None
    writer.write(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n" + one[:40])
    assert (await door.post(PATH, signed(), BODY)).status == 202  # another connection does not wait
    ack.set_result(None)
    assert [(await door.answer(reader)).status for _ in range(2)] == [202, 404]
    writer.write(one[40:])
    assert (await door.answer(reader)).status == 202
    writer.close()


async def test_a_connection_whose_delivery_waits_is_not_idle(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(idle_seconds=0.1))
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    waiting = asyncio.create_task(door.post(PATH, signed(), BODY))
    await until(lambda: bool(door.outbox.sent))
    await asyncio.sleep(0.4)  # four times as long as an idle connection lives
    ack.set_result(None)
    assert (await waiting).status == 202


async def test_an_idle_connection_is_closed_in_the_end(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(idle_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(whole())
    assert (await door.answer(reader)).status == 202
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()


async def test_a_sender_that_goes_away_before_its_answer_leaves_nothing_behind(
    open_door: Any, repo: Any
) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1))
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    _, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(whole())
    await until(lambda: bool(door.outbox.sent))
    writer.transport.abort()
    door.outbox.behave = lambda: None
    assert (await door.post(PATH, signed(), BODY)).status == 503  # it is still on its way to Kafka
    ack.set_result(None)
    await until_taken(door)


async def test_a_delivery_that_waits_when_the_service_stops_gets_its_answer(
    open_door: Any, repo: Any
) -> None:
    door = await open_door(repo())
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    waiting = asyncio.create_task(door.post(PATH, signed(), BODY))
    await until(lambda: bool(door.outbox.sent))
    stopping = asyncio.create_task(door.stop())
    await asyncio.sleep(0)
    ack.set_result(None)
    assert (await waiting).status == 202
    await stopping
