from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from headgate.runner.dial import Denied, connector, refusal

METADATA = [
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254",
    "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "64:ff9b::6464:64c8",
]  # fmt: skip
NEVER = [
    "169.254.1.1", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
    "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:1::1", "64:ff9b:1::1", "5f00::1", "100::1",
    "::127.0.0.1", "::169.254.169.254", "not an address", "",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.88.99.1",
    "198.18.0.1", "::1", "::", "fc00::1", "fd12::1", "::ffff:7f00:1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", METADATA + NEVER)
def test_metadata_and_link_local_are_refused_whatever_the_setting(address: str) -> None:
    assert refusal(address, allow_private=True)
    assert refusal(address, allow_private=False)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_a_matter_of_the_setting(address: str) -> None:
    assert refusal(address, allow_private=True) is None
    assert "HEADGATE_RUNNER__ALLOW_PRIVATE" in str(refusal(address, allow_private=False))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal(address, allow_private=False) is None


class Names(AbstractResolver):
    """Answers each look-up with the next list of addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET,
                "proto": 0,
                "flags": 0,
            }
            for address in self.answers.pop(0)
        ]

    async def close(self) -> None:
        pass


async def dialled(url: str, allow_private: bool, *answers: list[str]) -> Any:
    """The status, or the refusal."""
    connections = connector(allow_private, 4, Names(*answers) if answers else None)
    async with aiohttp.ClientSession(connector=connections, trust_env=False) as session:
        try:
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=5)) as response:
                return response.status
        except aiohttp.ClientConnectorError as problem:
            return problem.os_error
        except aiohttp.InvalidURL as problem:
            return Denied(str(problem))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "[::1]",
     "[::ffff:7f00:1]", "[::]", "0"],
)  # fmt: skip
async def test_every_way_to_write_loopback_is_recognised(host: str) -> None:
    assert isinstance(await dialled(f"http://{host}:9/", allow_private=False), Denied)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "[fe80::1]"]
)
async def test_metadata_is_not_dialled_even_where_private_is_allowed(host: str) -> None:
    assert isinstance(await dialled(f"http://{host}/", allow_private=True), Denied)


async def test_one_bad_address_among_good_ones_refuses_the_name() -> None:
    answer = await dialled("http://mixed.test/", True, ["127.0.0.1", "169.254.169.254"])
    assert isinstance(answer, Denied)
    assert "mixed.test" in str(answer)


async def test_what_is_judged_is_what_is_dialled_so_rebinding_gains_nothing() -> None:
    async def ok(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/", ok)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        names = Names(["127.0.0.1"], ["169.254.169.254"])
        async with (
            aiohttp.ClientSession(connector=connector(True, 4, names)) as session,
            session.get(f"http://rebind.test:{port}/") as response,
        ):
            assert response.status == 200
        assert names.answers == [["169.254.169.254"]], "the name was resolved a second time"
    finally:
        await runner.cleanup()
