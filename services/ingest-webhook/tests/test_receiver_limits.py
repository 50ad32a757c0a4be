"""How much the service holds, for whom, and what the rest is told."""

import asyncio
import json
from typing import Any

import pytest
from tests.harness.deliveries import BODY, PATH, SECRET, signed, until_taken
from tests.harness.waiting import until

from headgate.ingest_webhook.settings import Limits
from headgate.ingest_webhook.telemetry import IN_FLIGHT


def begun(size: int, sent: bytes) -> bytes:
    """A delivery that announces more than it has sent."""
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + sent


async def test_more_in_flight_than_we_hold_is_503_at_once_and_passes(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(in_flight=1))
    ack = asyncio.get_running_loop().create_future()
    door.outbox.behave = lambda: ack
    first = asyncio.create_task(door.post(PATH, signed(), BODY))
    await until("it is on its way", lambda: bool(door.outbox.sent), seconds=20)
    assert (await door.post(PATH, signed(), BODY)).status == 503
    ack.set_result(None)
    assert (await first).status == 202
    assert (await door.post(PATH, signed(), BODY)).status == 202


async def test_bodies_that_are_announced_and_hardly_sent_keep_nobody_out(open_door: Any, repo: Any) -> None:
    door = await open_door(repo(), limits=Limits(body_bytes=5000, in_flight_bytes=10_000))
    held = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(10)]
    for number, (_, writer) in enumerate(held):
        chunked = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode()
        writer.write(chunked if number % 2 else begun(5000, b"x"))
        await writer.drain()
    await until(
        "ten deliveries have begun", lambda: IN_FLIGHT.collect()[0].samples[0].value == 10, seconds=20
    )
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


@pytest.mark.usefixtures("github_secret")
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
