"""Lists of any HTTP API: ways of paging, of asking for what is new, of naming things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import Misconfigured, Transient
from headgate.common.model import Source as Document
from headgate.common.sources import MAX_REMEMBERED
from headgate.common.sources.poll import Poll, Pollers
from headgate.common.sources.position import Position
from headgate.common.sources.turn import take_turn
from headgate.common.testing.clocks import FixedClock
from headgate.common.testing.memory import Memory
from headgate.poller.sources.json_api import SOURCE, Window, at_path, written

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
URL = "https://api.example.com/list"
ITEMS = [{"id": number, "at": (NOON + timedelta(minutes=number)).isoformat()} for number in range(6)]
DATE = {"date": "Wed, 18 Nov 2026 13:00:00 GMT"}
Answer = Callable[[httpx.Request], httpx.Response]


def opened(answer: Answer, **config: Any) -> Poll:
    document = Document.model_validate(
        {"metadata": {"name": "j"}, "provider": "json", "config": {"url": URL, "time": "at", **config}}
    )
    pollers = Pollers({"json": SOURCE}, FixedClock(NOON), [], transport=lambda: httpx.MockTransport(answer))
    return pollers.open(document)


async def drained(poll: Poll, memory: Memory | None = None, start: datetime = NOON) -> Memory:
    memory = memory or Memory()
    await take_turn(poll, memory.saved or Position(Window(since=start)), memory.publish, memory.save)
    return memory


def by_page(request: httpx.Request) -> httpx.Response:
    page = int(request.url.params.get("p", "0"))
    return httpx.Response(200, json=ITEMS[page * 2 : page * 2 + 2], headers=DATE)


def by_link(request: httpx.Request) -> httpx.Response:
    page = int(request.url.params.get("p", "0"))
    link = {"link": f'<{URL}?p={page + 1}>; rel="next"'} if page < 2 else {}
    return httpx.Response(200, json=ITEMS[page * 2 : page * 2 + 2], headers=DATE | link)


def by_url(request: httpx.Request) -> httpx.Response:
    page = int(request.url.params.get("p", "0"))
    following = f"?p={page + 1}" if page < 2 else None
    return httpx.Response(200, json={"rows": ITEMS[page * 2 : page * 2 + 2], "next": following}, headers=DATE)


@pytest.mark.parametrize(
    ("answer", "config"),
    [
        (by_page, {"paging": {"style": "page", "param": "p", "first": 0}}),
        (by_link, {"paging": {"style": "link"}}),
        (by_url, {"paging": {"style": "next_url"}, "items": "$.rows"}),
        (by_url, {"paging": {"style": "next_url", "path": "next"}, "items": "rows"}),
    ],
)
async def test_every_way_of_paging_reaches_the_end(answer: Answer, config: dict[str, Any]) -> None:
    memory = await drained(opened(answer, **config))
    assert memory.keys == [str(number) for number in range(6)]
    assert memory.saved is not None
    assert memory.saved.cursor == Window(since=NOON + timedelta(minutes=5))


async def test_the_position_does_not_move_before_the_last_page_of_a_list_in_any_order() -> None:
    asked = 0

    def newest_first(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        page = int(request.url.params["p"])
        if asked == 2:
            return httpx.Response(500)
        return httpx.Response(200, json=ITEMS[::-1][page * 3 : page * 3 + 3], headers=DATE)

    poll = opened(newest_first, paging={"style": "page", "param": "p", "first": 0})
    memory = Memory()
    with pytest.raises(Exception, match="trouble"):
        await drained(poll, memory)
    assert memory.saved is not None
    assert memory.saved.cursor.watermark == NOON
    await drained(poll, memory)
    assert sorted(memory.keys) == [str(number) for number in range(6)]


moves = st.lists(st.tuples(st.sampled_from(["change", "delete", "new"]), st.integers(0, 20)), max_size=10)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(["page", "link"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(1, 200), max_size=10),
    st.lists(st.none() | moves.map(lambda some: some[:1]), max_size=12),
)
def test_a_numbered_list_that_moves_between_two_pages_loses_no_item(
    style: str, asked_since: bool, newest_first: bool, ages: list[int], during: list[Any]
) -> None:
    """Items change, come and go between any two requests: when all is quiet, the last state of each was published."""
    now = NOON
    items = {number: NOON - timedelta(minutes=age) for number, age in enumerate(ages)}
    batches = iter(during)

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal now
        page = int(request.url.params.get("p", "1"))
        start = datetime.fromisoformat(request.url.params.get("after", "2026-01-01T00:00:00Z"))
        rows = sorted(((at, number) for number, at in items.items() if at >= start), reverse=newest_first)
        found = [{"id": number, "at": at.isoformat()} for at, number in rows[page * 2 - 2 : page * 2]]
        headers = {"date": now.strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if page * 2 < len(rows):
            headers["link"] = f'<{request.url.copy_set_param("p", str(page + 1))}>; rel="next"'
        for what, number in next(batches, None) or ():
            now += timedelta(seconds=61)
            if what == "delete":
                items.pop(number, None)
            else:
                items[number if what == "change" else 100 + len(items)] = now
        return httpx.Response(200, json=found, headers=headers)

    paging = {"style": style, "param": "p"}
    since = {"since": {"param": "after"}} if asked_since else {}
    poll = opened(answer, key=["id", "at"], paging=paging, **since)

    async def scenario() -> Memory:
        nonlocal now
        memory = Memory()
        for _ in range(len(during) + 3):
            await drained(poll, memory, NOON - timedelta(hours=4))
            now += timedelta(minutes=5)
        return memory

    memory = asyncio.run(scenario())
    found = {(event.data["id"], event.data["at"]) for event in memory.published}
    assert {(number, at.isoformat()) for number, at in items.items()} <= found


async def test_a_list_that_never_holds_still_ends_the_turn_and_keeps_the_position() -> None:
    gone = 0

    def shrinking(request: httpx.Request) -> httpx.Response:
        nonlocal gone
        gone += 1
        page = int(request.url.params["p"])
        rows = [{"id": number, "at": NOON.isoformat()} for number in range(gone, 1000)]
        return httpx.Response(200, json=rows[page * 500 : page * 500 + 500], headers=DATE)

    memory = Memory()
    with pytest.raises(Transient, match="moved through"):
        await drained(opened(shrinking, paging={"style": "page", "param": "p", "first": 0}), memory)
    assert memory.saved is not None
    assert memory.saved.cursor.watermark == NOON
    assert len(memory.keys) == len(set(memory.keys)) > 900


async def test_an_api_that_gives_the_same_page_for_every_number_is_said() -> None:
    poll = opened(lambda _: httpx.Response(200, json=ITEMS, headers=DATE), paging={"style": "page"})
    with pytest.raises(Transient, match=r"paging\.param"):
        await drained(poll)


@pytest.mark.parametrize("gone_at", [0, 1])
async def test_a_page_that_is_gone_loses_nothing_and_a_list_that_is_gone_is_said(gone_at: int) -> None:
    gone = True

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(410) if gone and request.url.params["p"] == str(gone_at) else by_page(request)

    poll = opened(answer, paging={"style": "page", "param": "p", "first": 0})
    memory = Memory()
    with pytest.raises(Transient if gone_at else Misconfigured, match="410"):
        await drained(poll, memory)
    gone = False
    await drained(poll, memory)
    assert memory.keys == [str(number) for number in range(6)]


async def test_a_list_without_times_that_is_too_long_to_remember_is_refused() -> None:
    rows = [{"id": number} for number in range(MAX_REMEMBERED)]
    poll = opened(lambda _: httpx.Response(200, json=rows), time=None)
    assert len((await drained(poll)).keys) == MAX_REMEMBERED
    rows.append({"id": MAX_REMEMBERED})
    with pytest.raises(Misconfigured, match="Set `time`"):
        await drained(poll)


@pytest.mark.parametrize(
    ("form", "sent"),
    [("iso", "2026-11-18T11:58:00.000Z"), ("epoch", "1795003080"), ("epoch_ms", "1795003080000")],
)
async def test_the_api_is_asked_from_before_the_position_in_its_own_format(form: str, sent: str) -> None:
    asked: list[httpx.QueryParams] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params)
        return httpx.Response(200, json=[], headers=DATE)

    await drained(opened(answer, since={"param": "after", "format": form}, params={"state": "any"}))
    assert dict(asked[0]) == {"after": sent, "state": "any"}


async def test_an_api_that_cannot_be_asked_is_filtered_here() -> None:
    everything: Answer = lambda _: httpx.Response(200, json=ITEMS, headers=DATE)  # noqa: E731
    poll = opened(everything)
    memory = await drained(poll, start=NOON + timedelta(minutes=5))
    assert memory.keys == ["3", "4", "5"], "those within the overlap, and none from long ago"
    await drained(poll, memory)
    assert memory.keys == ["3", "4", "5"]


async def test_a_list_without_times_is_remembered_by_its_keys() -> None:
    rows: list[dict[str, Any]] = [{"id": {"n": 1}}, {"id": {"n": 2}}]
    poll = opened(lambda _: httpx.Response(200, json=rows), time=None, key=["id.n"])
    memory = await drained(poll)
    rows.append({"id": {"n": 3}})
    await drained(poll, memory)
    assert memory.keys == ["1", "2", "3"]


async def test_an_item_without_its_key_or_with_an_unreadable_time_costs_only_itself() -> None:
    rows = [{"at": NOON.isoformat()}, {"id": 1, "at": "soon"}, {"id": {}, "at": NOON.isoformat()}, ITEMS[1]]
    memory = await drained(opened(lambda _: httpx.Response(200, json=rows, headers=DATE)))
    assert memory.keys == ["1"]
    assert len(memory.bad) == 3


async def test_items_whose_key_fields_hold_colons_stay_two_and_one_with_an_empty_key_is_bad() -> None:
    rows = [{"id": "a", "part": "b:c"}, {"id": "a:b", "part": "c"}, {"id": "", "part": ""}]
    poll = opened(lambda _: httpx.Response(200, json=rows), time=None, key=["id", "part"])
    memory = await drained(poll)
    assert len(set(memory.keys)) == 2
    assert len(memory.bad) == 1


async def test_a_list_that_is_not_where_it_should_be_is_said() -> None:
    poll = opened(lambda _: httpx.Response(200, json={"data": {}}), items="data.rows")
    with pytest.raises(Misconfigured, match=r"no list at 'data\.rows'"):
        await drained(poll)


async def test_a_next_page_on_another_server_is_not_followed() -> None:
    answer = {"rows": [], "next": "https://evil.example/"}
    poll = opened(lambda _: httpx.Response(200, json=answer), items="rows", paging={"style": "next_url"})
    with pytest.raises(Misconfigured, match=r"evil\.example"):
        await drained(poll)


@pytest.mark.parametrize("url", ["", "ftp://x/y", "file:///etc/passwd", "/list", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="http address"):
        opened(by_page, url=url)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", {"a": [{"b": 1}]}),
        ("$", {"a": [{"b": 1}]}),
        ("a[0].b", 1),
        ("$.a.0.b", 1),
        ("a.7", None),
        ("a.b.c", None),
    ],
)
def test_paths_lead_to_values_or_nowhere(path: str, value: Any) -> None:
    assert at_path({"a": [{"b": 1}]}, path) == value


def test_an_instant_is_rounded_down_when_it_is_sent() -> None:
    assert written(NOON + timedelta(microseconds=999_999), "epoch") == str(int(NOON.timestamp()))
