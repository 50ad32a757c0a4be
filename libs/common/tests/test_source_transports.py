"""What surrounds a provider's requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import Misconfigured, Transient
from headgate.common.sources.times import http_date, instant, micros, moment
from headgate.common.sources.transports import Authorized, Bounded, Budget, Dated, Limited, Patient
from headgate.common.testing.clocks import FixedClock

HOME = httpx.URL("https://api.example.com")


def client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, base_url=HOME, trust_env=False, follow_redirects=True)


async def test_https_does_not_become_http() -> None:
    down = httpx.MockTransport(lambda _: httpx.Response(302, headers={"location": "http://api.example.com/"}))
    async with client(Authorized(down, HOME, lambda: None)) as http:
        with pytest.raises(Misconfigured, match="from https to http"):
            await http.get("/")


async def test_a_user_name_in_an_address_is_refused() -> None:
    away = {"location": "https://a:b@api.example.com/"}
    redirect = httpx.MockTransport(lambda _: httpx.Response(302, headers=away))
    async with client(Authorized(redirect, HOME, lambda: None)) as http:
        with pytest.raises(Misconfigured, match="user name"):
            await http.get("/")


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key"])
@pytest.mark.parametrize(
    ("home", "away", "carried"),
    [
        ("https://api.example.com", "https://evil.example/", False),
        ("https://api.example.com", "https://api.example.com:8443/", False),
        ("http://api.example.com:8080", "https://api.example.com/", False),
        ("https://api.example.com", "https://api.example.com/elsewhere", True),
        ("http://api.example.com", "https://api.example.com/", True),
    ],
)
async def test_a_redirect_carries_the_credential_nowhere_else_whatever_its_header(
    name: str, home: str, away: str, carried: bool
) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(302 if len(asked) == 1 else 200, headers={"location": away})

    transport = Authorized(httpx.MockTransport(answer), httpx.URL(home), lambda: (name, "secret"))
    async with client(transport) as http:
        await http.get(f"{home}/")
    assert [name in request.headers for request in asked] == [True, carried]


async def test_a_gateway_that_stumbles_is_asked_again_and_a_limit_is_not() -> None:
    answers = [502, 200]
    asked: list[int] = []

    def answer(_: httpx.Request) -> httpx.Response:
        asked.append(answers[len(asked)])
        return httpx.Response(asked[-1])

    clock = FixedClock()
    async with client(Patient(httpx.MockTransport(answer), clock)) as http:
        assert (await http.get("/")).status_code == 200
        answers[:] = [502, 200, 429]
        assert (await http.get("/")).status_code == 429
    assert len(clock.slept) == 1


async def test_a_broken_connection_is_tried_three_times_in_all() -> None:
    tries = 0

    def broken(request: httpx.Request) -> httpx.Response:
        nonlocal tries
        tries += 1
        raise httpx.ConnectError("refused", request=request)

    async with client(Patient(httpx.MockTransport(broken), FixedClock())) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get("/")
    assert tries == 3


async def test_sources_of_one_account_share_its_budget() -> None:
    clock = FixedClock()
    budget = Budget(per_second=2.0, burst=3, clock=clock)
    ok = httpx.MockTransport(lambda _: httpx.Response(200))
    async with client(Limited(ok, budget)) as one, client(Limited(ok, budget)) as two:
        for _ in range(5):
            await one.get("/")
            await two.get("/")
    assert sum(clock.slept) == pytest.approx((10 - 3) / 2, abs=0.01)


async def test_a_body_is_read_up_to_the_limit() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 1024 * 1024

    large = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    async with client(Bounded(large)) as http:
        with pytest.raises(Transient, match="larger than"):
            await http.get("/")
    assert sent == 11


async def test_a_compressed_answer_is_refused_since_it_could_be_a_bomb() -> None:
    bomb = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-encoding": "br"}, content=b"x")
    )
    async with client(Bounded(bomb)) as http:
        with pytest.raises(Transient, match="compressed"):
            await http.get("/")


async def test_the_provider_s_date_is_remembered() -> None:
    dated = Dated(
        httpx.MockTransport(lambda _: httpx.Response(200, headers={"date": "Wed, 18 Nov 2026 12:00:00 GMT"}))
    )
    async with client(dated) as http:
        await http.get("/")
    assert dated.latest == datetime(2026, 11, 18, 12, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_survive_our_records(at: datetime) -> None:
    assert instant(micros(at)) == at


@pytest.mark.parametrize(
    "value", ["2026-11-18T12:00:00Z", "2026-11-18T13:00:00+01:00", "2026-11-18T12:00:00", 1795003200, 1795003200000.0,
              "1795003200", "1795003200.000", "1795003200000", "Wed, 18 Nov 2026 12:00:00 GMT"]
)  # fmt: skip
def test_times_are_read_as_providers_write_them(value: object) -> None:
    assert moment(value) == datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.mark.parametrize("value", [None, True, "", "soon", "9" * 400, 1e300, float("nan"), [], {}])
def test_what_is_no_time_is_said(value: object) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        moment(value)


@given(st.text(max_size=40))
def test_a_header_of_any_text_is_a_date_or_none(text: str) -> None:
    found = http_date(text)
    assert found is None or found.tzinfo is not None
