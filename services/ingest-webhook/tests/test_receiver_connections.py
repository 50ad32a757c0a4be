"""Connections that are reused, slow, idle or gone: each is answered or ended, and none keeps anything."""

import asyncio
import json
from typing import Any

import pytest
from tests.harness.deliveries import BODY, PATH, signed, until_taken, whole
from tests.harness.waiting import until

from headgate.ingest_webhook.settings import Limits


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


async def test_what_comes_while_a_delivery_waits_is_answered_after_it(open_door: Any, repo: Any) -> None:
    door = await open_door(repo())
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    one = whole()
    writer.write(one)
    await until("it is on its way", lambda: len(door.outbox.sent) == 1, seconds=20)
    door.outbox.behave = lambda: None
    writer.write(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n" + one[:40])
    assert (await door.post(PATH, signed(), BODY)).status == 202  # another connection does not wait
    ack.set_result(None)
    assert [(await door.answer(reader)).status for _ in range(2)] == [202, 404]
    writer.write(one[40:])
    assert (await door.answer(reader)).status == 202
    writer.close()


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


async def test_an_idle_connection_is_closed_in_the_end(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(idle_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(whole())
    assert (await door.answer(reader)).status == 202
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()


async def test_a_connection_whose_delivery_waits_is_not_idle(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(idle_seconds=0.1))
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    waiting = asyncio.create_task(door.post(PATH, signed(), BODY))
    await until("it is on its way", lambda: bool(door.outbox.sent), seconds=20)
    await asyncio.sleep(0.4)  # four times as long as an idle connection lives
    ack.set_result(None)
    assert (await waiting).status == 202


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


@pytest.mark.parametrize("rest", [b"zz\r\n", b"5\r\nab", b"ffffffffffffffffffff\r\n"])
async def test_a_body_that_is_framed_wrongly_is_the_senders_trouble(
    rest: bytes, open_door: Any, repo: Any
) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1, body_seconds=0.5))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".encode()
    assert (await door.raw(head + rest)).status in (400, 408)
    assert door.outbox.sent == []
    await until_taken(door)


async def test_a_sender_that_goes_away_in_its_body_leaves_nothing_behind(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1))
    _, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
    await writer.drain()
    writer.transport.abort()
    await until_taken(door)


async def test_a_sender_that_goes_away_before_its_answer_leaves_nothing_behind(
    open_door: Any, repo: Any
) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1))
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    _, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(whole())
    await until("it is on its way", lambda: bool(door.outbox.sent), seconds=20)
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
    await until("it is on its way", lambda: bool(door.outbox.sent), seconds=20)
    stopping = asyncio.create_task(door.stop())
    await asyncio.sleep(0)
    ack.set_result(None)
    assert (await waiting).status == 202
    await stopping
