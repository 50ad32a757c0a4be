"""Where a source may connect to. The decision is made on the address actually dialled, after the name
was resolved, so that a name cannot say one thing to the guard and another to the socket.

Denied: everything that is not the public Internet, unless a setting allows its network; and the
metadata services of clouds always. The tables are our own: `ipaddress.is_global` calls the NAT64 form
of 169.254.169.254 global.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import httpcore
import httpx

from headgate.common.errors import Misconfigured, Transient

Address = IPv4Address | IPv6Address
Network = ipaddress.IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]

_NOT_PUBLIC_V4 = [
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
_PUBLIC_V6 = ip_network("2000::/3")
_NOT_PUBLIC_V6 = [ip_network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
_METADATA: list[Network] = [
    ip_network(text)
    for text in ("169.254.0.0/16", "100.100.100.200", "168.63.129.16", "fd00:ec2::/64", "fe80::/10")
]
_EMBEDDING = [ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96")]
_ODD_NUMBER = re.compile(r"^(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?$", re.IGNORECASE)


class Refused(Misconfigured):
    """The address is one that sources may not reach; a person must change the URL or the setting."""


def verdict(address: Address, allowed: Sequence[Network]) -> str | None:
    """Why this address is refused, or None."""
    address = _plain(address)
    if any(address in network for network in _METADATA):
        return "it is a metadata or link-local address, which is never allowed"
    if any(address in network for network in allowed):
        return None
    if isinstance(address, IPv4Address):
        private = any(address in network for network in _NOT_PUBLIC_V4)
    else:
        private = address not in _PUBLIC_V6 or any(address in network for network in _NOT_PUBLIC_V6)
    if private:
        return "it is not a public address; HEADGATE_EGRESS_ALLOW lists the private networks that are"
    return None


def _plain(address: Address) -> Address:
    """An IPv4 address in IPv6 clothes as what it is."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def networks(texts: Iterable[str]) -> list[Network]:
    """The allow-list as written in the settings. IPv6 forms that embed IPv4 cannot be allowed."""
    result: list[Network] = []
    for text in texts:
        try:
            network = ip_network(text.strip(), strict=False)
        except ValueError as error:
            raise Misconfigured(
                f"HEADGATE_EGRESS_ALLOW: '{text}' is not a network; write CIDR, as in 10.0.0.0/8"
            ) from error
        if any(network.version == 6 and network.overlaps(one) for one in _EMBEDDING):
            raise Misconfigured(
                f"HEADGATE_EGRESS_ALLOW: '{text}' covers IPv6 forms of IPv4 addresses; "
                f"write the IPv4 network instead"
            )
        result.append(network)
    return result


async def system_resolve(host: str, port: int) -> list[str]:
    """The machine's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves, judges every address, dials the literal one. Host, SNI and certificate stay the name's."""

    def __init__(self, allowed: Sequence[Network], resolve: Resolve = system_resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._dialler = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        problem: Exception | None = None
        for address in await self.judged(host, port):
            try:
                return await self._dialler.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
        raise problem or httpcore.ConnectError(f"no address for {host}")

    async def judged(self, host: str, port: int) -> list[str]:
        """The addresses of a host, if all of them may be dialled: one bad one spoils the name."""
        try:
            addresses = [str(ip_address(host))]
        except ValueError:
            if _ODD_NUMBER.match(host):
                raise Refused(
                    f"'{host}' is a number in disguise, not a host name; connection refused"
                ) from None
            try:
                addresses = await self._resolve(host, port)
            except OSError as error:
                raise Transient(f"the name {host} cannot be resolved: {error.strerror or error}") from error
        for address in addresses:
            reason = verdict(ip_address(address.partition("%")[0]), self._allowed)
            if reason:
                raise Refused(f"connection to {host} ({address}) refused: {reason}")
        return addresses

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise Refused(f"connection to the socket {path} refused: sources speak to the network only")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport on the guarded backend; no proxies or credentials out of the environment."""

    def __init__(self, allowed: Sequence[Network], resolve: Resolve = system_resolve) -> None:
        super().__init__(trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False),
            max_connections=4,
            keepalive_expiry=30.0,
            network_backend=GuardedBackend(allowed, resolve),
        )
