import asyncio
import os

import pytest

from headgate.common.errors import TooLarge, Unreachable
from headgate.common.producer import Producer
from headgate.common.testing.cluster import Stack
from headgate.common.testing.waiting import until
from headgate.common.view import View

pytestmark = pytest.mark.kafka


async def test_a_view_holds_the_newest_value_of_each_name_and_follows_deletions(stack: Stack):
    producer = Producer(stack.kafka)
    topic = stack.topics.triggers
    for key, value in [("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", None)]:
        await producer.send(topic, key=key, value=value)
    view = View(stack.kafka, topic, lambda _, value: value)
    view.start()
    assert await asyncio.to_thread(view.wait_ready, 20)
    assert view.snapshot() == {"a": b"2"}
    await producer.send(topic, key="c", value=b"3")
    await until(lambda: view.get("c") == b"3")
    await producer.send(topic, key="a", value=None)
    await until(lambda: view.get("a") is None)
    assert view.fresh()
    view.stop()
    await producer.close()


async def test_a_record_that_cannot_be_read_leaves_what_was_known(stack: Stack):
    def decode(_: str, value: bytes) -> int:
        return int(value)

    producer = Producer(stack.kafka)
    topic = stack.topics.triggers
    await producer.send(topic, key="a", value=b"1")
    view = View(stack.kafka, topic, decode)
    view.start()
    await until(lambda: view.get("a") == 1)
    await producer.send(topic, key="a", value=b"poison")
    await producer.send(topic, key="b", value=b"2")
    await until(lambda: view.get("b") == 2)
    assert view.get("a") == 1
    view.stop()
    await producer.close()


async def test_a_record_that_needs_the_registry_is_read_when_that_is_back(stack: Stack):
    away = True

    def decode(_: str, value: bytes) -> int:
        if value == b"2" and away:
            raise Unreachable("the schema registry does not answer")
        return int(value)

    producer = Producer(stack.kafka)
    topic = stack.topics.triggers
    for key, value in [("a", b"1"), ("a", b"2"), ("gone", b"2"), ("gone", None), ("b", b"1")]:
        await producer.send(topic, key=key, value=value)
    view = View(stack.kafka, topic, decode)
    view.start()
    await until(lambda: view.snapshot() == {"a": 1, "b": 1})
    # What others say goes on, and nobody is told that this is all.
    await producer.send(topic, key="b", value=b"3")
    await until(lambda: view.get("b") == 3)
    assert not await asyncio.to_thread(view.wait_ready, 2.5)
    assert not view.fresh()
    away = False  # decode looks at it
    assert await asyncio.to_thread(view.wait_ready, 20)
    assert view.snapshot() == {"a": 2, "b": 3}
    view.stop()
    await producer.close()


async def test_a_view_of_a_broker_that_is_away_is_neither_ready_nor_fresh(stack: Stack):
    away = stack.kafka.model_copy(update={"bootstrap": "127.0.0.1:1"})
    view = View(away, stack.topics.triggers, lambda _, value: value)
    view.start()
    assert not await asyncio.to_thread(view.wait_ready, 0.5)
    assert not view.fresh()
    view.stop()


async def test_a_send_resolves_only_when_the_broker_has_the_record(stack: Stack):
    producer = Producer(stack.kafka)
    messages = await asyncio.gather(
        *(producer.send(stack.topics.raw, key=f"k{n}", value=b"v", headers=[("h", b"1")]) for n in range(500))
    )
    assert all(message.offset() >= 0 for message in messages)
    assert len(producer) == 0
    await producer.close()


async def test_sends_resolve_whoever_polls(stack: Stack):
    """The loop when many are on their way, a thread when few are; and in turns."""
    producer = Producer(stack.kafka)

    def send(number: int):
        return producer.send(stack.topics.raw, key=f"k{number}", value=b"v")

    async with asyncio.timeout(60):
        await send(0)
        assert not producer._ticking
        for _ in range(2):
            many = [send(number) for number in range(100)]
            assert producer._ticking
            await asyncio.gather(*many)
            while producer._ticking:  # noqa: ASYNC110 what is waited for has no event of its own
                await asyncio.sleep(0.01)
            await send(0)
        many = [send(number) for number in range(100)]
        assert await producer.flush(30) == 0
        assert all(one.done() for one in many)
    await producer.close()


async def test_what_hears_of_a_delivery_and_fails_keeps_no_other_from_hearing(stack: Stack):
    producer = Producer(stack.kafka)
    problems, heard = [], asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))

    def fails(error: Exception | None, _: object):
        raise RuntimeError("canary")

    producer.hand_over(stack.topics.raw, "k", b"v", None, fails)
    producer.hand_over(stack.topics.raw, "k", b"v", None, lambda *_: heard.set())
    async with asyncio.timeout(60):
        await heard.wait()
    assert [str(one) for one in problems] == ["canary"]
    await producer.close()


async def test_a_record_larger_than_the_topic_takes_is_named_too_large(stack: Stack):
    producer = Producer(stack.kafka)
    with pytest.raises(TooLarge):
        await producer.send(stack.topics.raw, key="k", value=os.urandom(3_000_000))
    await producer.close()
