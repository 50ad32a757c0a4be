"""A delivery is settled once, whoever comes first: the last acknowledgement, an error, the deadline."""

import asyncio
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import Unreachable
from headgate.ingest_webhook.limits import Recent
from headgate.ingest_webhook.waiting import Deadlines, Waiting

LATE = TimeoutError()
LOST = Unreachable("away")


@pytest.mark.parametrize("records", [1, 3])
async def test_it_is_settled_by_the_last_acknowledgement(records: int) -> None:
    said: list[Exception | None] = []
    waiting = Waiting(records, said.append, Deadlines(), monotonic() + 60)
    for _ in range(records):
        assert said == []
        waiting.told(None)
    assert said == [None]


async def test_it_is_settled_at_its_deadline_and_the_others_go_on_waiting() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    first, never = loop.create_future(), loop.create_future()
    Waiting(1, first.set_result, deadlines, monotonic() + 0.05)
    patient = Waiting(1, never.set_result, deadlines, monotonic() + 60)
    async with asyncio.timeout(20):
        assert isinstance(await first, TimeoutError)
    assert not never.done()
    patient.told(None)
    assert never.result() is None


async def test_a_deadline_still_comes_after_all_had_been_settled() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    for _ in range(2):
        Waiting(1, lambda _: None, deadlines, monotonic() + 0.03).told(None)
        late = loop.create_future()
        Waiting(1, late.set_result, deadlines, monotonic() + 0.03)
        async with asyncio.timeout(20):
            assert isinstance(await late, TimeoutError)


@given(st.integers(1, 4), st.lists(st.sampled_from([None, LOST, LATE]), min_size=1, max_size=9))
def test_only_the_first_word_counts(records: int, words: list[Exception | None]) -> None:
    async def play() -> None:
        said: list[Exception | None] = []
        deadlines = Deadlines()
        waiting = Waiting(records, said.append, deadlines, monotonic() + 60)
        for word in words:
            if word is LATE:
                waiting.end(word)
            else:
                waiting.told(word)
        expected = next((word for word in words[:records] if word is not None), None)
        if expected is None and len(words) < records:
            assert said == []
        else:
            assert said == [expected]
            assert deadlines._slots == {}  # nothing of it is kept

    asyncio.run(play())


def test_recent_fingerprints_are_remembered_and_old_ones_are_not() -> None:
    recent = Recent(100)
    assert [recent.add(str(number)) for number in range(1000)] == [False] * 1000
    assert all(recent.add(str(number)) for number in range(950, 1000))
    assert not recent.add("0")
    assert len(recent._new) + len(recent._old) <= 100
