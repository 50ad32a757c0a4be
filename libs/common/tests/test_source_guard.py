"""Where sources may not connect to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import httpx
import pytest
from aiohttp import web

from headgate.common.addresses import Network, refusal
from headgate.common.errors import Misconfigured
from headgate.common.sources.guard import GuardedBackend, GuardedTransport, Refused, networks


def verdict(address: str, allowed: Sequence[Network]) -> str | None:
    return refusal(address, allowed, "a setting would allow it")


REFUSED = [
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "::127.0.0.1",
    "5f00::1",
    "192.88.99.1",
    "168.63.129.16",
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "100.64.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "fd00:ec2::254",
    "fe80::1",
    "fc00::1",
    "2001:db8::1",
    "2001::1",
    "ff02::1",
    "198.18.0.1",
    "64:ff9b:1::1",
    "3fff::1",
    "100::1",
]


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert verdict(address, []) is not None


@pytest.mark.parametrize("address", ["93.184.216.34", "140.82.121.6", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_a_public_address_is_not(address: str) -> None:
    assert verdict(address, []) is None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "::ffff:169.254.169.254"],
)
def test_metadata_is_refused_whatever_is_allowed(address: str) -> None:
    assert verdict(address, networks(["0.0.0.0/0", "fc00::/7"])) is not None


def test_a_private_network_can_be_allowed() -> None:
    assert verdict("10.1.2.3", networks(["10.0.0.0/8"])) is None
    assert verdict("::ffff:10.1.2.3", networks(["10.0.0.0/8"])) is None
    assert verdict("192.168.1.1", networks(["10.0.0.0/8"])) is not None


@pytest.mark.parametrize("text", ["10.0.0.0/99", "example.com", "64:ff9b::/96", "::/0", "2002::/16"])
def test_an_allow_list_that_opens_too_much_or_means_nothing_stops_the_start(text: str) -> None:
    with pytest.raises(Misconfigured, match="HEADGATE_EGRESS_ALLOW"):
        networks([text])


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1"])
async def test_a_number_in_disguise_is_refused_before_it_is_resolved(host: str) -> None:
    with pytest.raises(Refused, match="disguise"):
        await GuardedBackend([], _never).judged(host, 80)


async def test_one_private_address_spoils_the_name() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    with pytest.raises(Refused, match=r"127\.0\.0\.1"):
        await GuardedBackend([], mixed).judged("mixed.example", 80)


async def test_the_address_that_was_judged_is_the_one_dialled() -> None:
    asked = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34"] if len(asked) == 1 else ["127.0.0.1"]

    guard = GuardedBackend([], rebinding)
    assert await guard.judged("rebind.example", 80) == ["93.184.216.34"]
    with pytest.raises(Refused):
        await guard.connect_tcp("rebind.example", 80)


@pytest.fixture
async def server() -> AsyncIterator[int]:
    """A server on loopback that answers, and one path that leads to the metadata service."""

    async def to_metadata(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"location": "http://169.254.169.254/latest/meta-data"})

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.add_routes([web.get("/away", to_metadata), web.get("/", hello)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:7f00:1]"])
async def test_loopback_is_refused_by_every_name(server: int, host: str) -> None:
    async with httpx.AsyncClient(transport=GuardedTransport([]), trust_env=False) as client:
        with pytest.raises(Refused, match="refused"):
            await client.get(f"http://{host}:{server}/")


async def test_an_allowed_network_is_reached_and_its_redirect_to_metadata_is_not(server: int) -> None:
    transport = GuardedTransport(networks(["127.0.0.0/8"]))
    async with httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=True) as client:
        assert (await client.get(f"http://127.0.0.1:{server}/")).text == "hello"
        with pytest.raises(Refused, match="never allowed"):
            await client.get(f"http://127.0.0.1:{server}/away")


async def _never(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host} was resolved")
