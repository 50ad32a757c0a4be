"""GitHub's ways: ties over page borders, lists that move while they are read, limits, strange clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.common.errors import HeadgateError, Misconfigured, RateLimited, Transient
from headgate.common.model import Source as Document
from headgate.common.sources.poll import Poll, Pollers
from headgate.common.sources.position import Position
from headgate.common.sources.turn import take_turn
from headgate.common.testing.clocks import FixedClock
from headgate.common.testing.fake_github import FakeGitHub
from headgate.common.testing.memory import Crash, Memory
from headgate.poller.sources.github import SOURCE, Since

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
HOST = "https://api.github.com"


def fake() -> FakeGitHub:
    return FakeGitHub(clock=lambda: NOON)


def opened(github: FakeGitHub, page_size: int = 3, between: Callable[[], None] = lambda: None) -> Poll:
    """The source as the service opens it, with the fake in place of the network."""

    def answer(request: httpx.Request) -> httpx.Response:
        github.asked.append(dict(request.url.params))
        items, following = github.page(request.url.params)
        headers = {"date": github.clock().strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if following:
            link = request.url.copy_set_param("page", str(following))
            headers["link"] = f'<{link}>; rel="next"'
        response = httpx.Response(200, json=items, headers=headers)
        between()
        return response

    return opened_on(answer, page_size)


def opened_on(answer: Callable[[httpx.Request], httpx.Response], page_size: int = 3) -> Poll:
    config = {"owner": "octo-org", "repo": "octo-repo", "page_size": page_size}
    document = Document.model_validate({"metadata": {"name": "i"}, "provider": "github", "config": config})
    transport = lambda: httpx.MockTransport(answer)  # noqa: E731 - a factory in place
    return Pollers({"github": SOURCE}, FixedClock(NOON), [], transport=transport).open(document)


async def turns(github: FakeGitHub, memory: Memory, count: int = 1, **more: object) -> Memory:
    poll = opened(github, **more)  # type: ignore[arg-type]
    for _ in range(count):
        position = memory.saved or Position(Since.start(NOON - timedelta(hours=4)))
        await take_turn(poll, position, memory.publish, memory.save)
    return memory


async def test_more_equal_stamps_than_fit_a_page_are_all_read() -> None:
    github = fake()
    wanted = {github.put(number, NOON - timedelta(hours=1)) for number in range(1, 11)}
    wanted |= {github.put(number, NOON - timedelta(minutes=number)) for number in range(11, 18)}
    memory = await turns(github, Memory(), 2)
    assert set(memory.keys) == wanted
    assert len(memory.keys) == len(wanted)


async def test_a_change_that_is_listed_late_is_found_within_the_overlap() -> None:
    github = fake()
    github.put(1, NOON - timedelta(seconds=10))
    memory = await turns(github, Memory())
    late = github.put(2, NOON - timedelta(seconds=100))
    assert late in (await turns(github, memory)).keys


async def test_pull_requests_are_passed_over_and_keep_their_place() -> None:
    github = fake()
    for number in range(1, 8):
        github.put(number, NOON - timedelta(hours=1), pull_request={"url": "x"})
    issue = github.put(8, NOON - timedelta(minutes=1))
    assert (await turns(github, Memory())).keys == [issue]


async def test_an_issue_dated_into_the_future_does_not_take_the_cursor_along() -> None:
    github = fake()
    skewed = github.put(1, NOON + timedelta(days=1))
    memory = await turns(github, Memory(), 2)
    new = github.put(2, NOON)
    await turns(github, memory, 2)
    assert sorted(memory.keys) == sorted([skewed, new])


async def test_a_deleted_issue_disturbs_nothing() -> None:
    github = fake()
    wanted = {github.put(number, NOON - timedelta(minutes=number)) for number in range(1, 8)}
    memory = await turns(github, Memory())
    del github.issues[3]
    await turns(github, memory)
    assert set(memory.keys) == wanted


changes = st.lists(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2)), max_size=4), min_size=1, max_size=12
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 90)), max_size=12), changes, st.integers(0, 40))
@example([(1, 3), (2, 3), (3, 3)], [[], [], [(1, 0)]], 0)
def test_a_list_that_changes_between_pages_and_crashes_lose_no_change_that_lasts(
    before: list[tuple[int, int]], during: list[list[tuple[int, int]]], crash_at: int
) -> None:
    """Issues change between any two requests and the process dies somewhere: when it has gone on and all
    is quiet, the last state of each issue has been published, and no position was ahead of it."""
    github, now = fake(), [NOON]
    github.clock = lambda: now[0]
    for number, minutes in before:
        github.put(number, NOON - timedelta(minutes=minutes))
    batches = iter(during)

    def between() -> None:
        for number, seconds in next(batches, []):
            now[0] += timedelta(seconds=seconds)
            github.put(number)

    async def scenario() -> Memory:
        memory = Memory(crash_at=crash_at)
        for _ in range(len(during) + 2):
            try:
                await turns(github, memory, page_size=2, between=between)
            except Crash:
                memory.crash_at = None
            if memory.saved:
                assert set(memory.saved.known) <= set(memory.keys)
        return memory

    memory = asyncio.run(scenario())
    assert github.keys() <= set(memory.keys)


RESET = str(int((NOON + timedelta(minutes=5)).timestamp()))
DATE = {"date": "Wed, 18 Nov 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("status", "headers", "body", "word", "seconds"),
    [
        (403, {"retry-after": "7"}, "slow", RateLimited, 7),
        (429, {"retry-after": "Wed, 18 Nov 2026 12:01:30 GMT"}, "slow", RateLimited, 90),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": RESET}, "no", RateLimited, 300),
        (429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 20}, "no", RateLimited, 60),
        (403, {}, "You have exceeded a secondary rate limit", RateLimited, 60),
        (429, {}, "no", RateLimited, 60),
        (429, {"retry-after": "315360000"}, "no", RateLimited, 315360000),
        (403, {}, "Resource not accessible by personal access token", Misconfigured, None),
        (404, {}, "Not Found", Misconfigured, None),
        (410, {}, "Issues are disabled for this repo", Misconfigured, None),
        (200, {}, None, Misconfigured, None),
    ],
)
async def test_github_s_refusals_are_told_apart(
    status: int, headers: dict[str, str], body: str | None, word: type[HeadgateError], seconds: float | None
) -> None:
    poll = opened_on(lambda _: httpx.Response(status, headers=DATE | headers, json={"message": body}))
    with pytest.raises(word, match="octo-org/octo-repo") as raised:
        await poll.page(Since(since=NOON))
    assert getattr(raised.value, "retry_after_seconds", None) == seconds


async def test_a_link_to_another_server_is_not_followed() -> None:
    headers = {"link": '<https://evil.example/x>; rel="next"'}
    poll = opened_on(lambda _: httpx.Response(200, headers=headers, json=[]))
    with pytest.raises(Misconfigured, match=r"evil\.example"):
        await poll.page(Since(since=NOON))


async def test_a_page_that_leads_back_to_itself_ends_the_turn() -> None:
    github = fake()
    github.put(1, NOON - timedelta(hours=4))

    def circle(request: httpx.Request) -> httpx.Response:
        items, _ = github.page({"since": "2026"})
        return httpx.Response(200, headers={"link": f'<{HOST}/same>; rel="next"'}, json=items)

    memory = Memory()
    with pytest.raises(Transient, match="leads back"):
        await take_turn(opened_on(circle), Position(Since(since=NOON)), memory.publish, memory.save)


@pytest.mark.parametrize(
    ("owner", "repo"), [("..", "x"), ("a/b", "x"), ("a", ".."), ("a", "b/c"), ("a", "b?c=d"), ("", "x")]
)
def test_names_that_would_lead_elsewhere_are_refused(owner: str, repo: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        SOURCE.config(owner=owner, repo=repo)
