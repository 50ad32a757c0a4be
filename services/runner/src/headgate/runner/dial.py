"""Which addresses an HTTP action may reach. Decided on the address that is dialled, never on a name.

A name is resolved once, inside the client, and what comes out is judged here: checking first and
connecting later would resolve twice, and a rebinding name server answers the second time differently.
The table is ours: `ipaddress.is_global` calls several ways to write 169.254.169.254 global.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


_METADATA = _networks(
    "169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128"
)
_NEVER = _networks(
    "169.254.0.0/16", "fe80::/10",  # link-local
    "224.0.0.0/4", "ff00::/8", "240.0.0.0/4",  # multicast, reserved, broadcast
    "2002::/16", "2001::/32", "64:ff9b:1::/48", "100::/64", "5f00::/16",  # tunnels and discard
)  # fmt: skip
_PRIVATE = _networks(
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "::/128", "::1/128", "fc00::/7", "fec0::/10", "2001:db8::/32", "3fff::/20",
)  # fmt: skip
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata"})


class Denied(OSError):
    """The address is off limits. Trying again does not help."""


def refusal(address: str, allow_private: bool) -> str | None:
    """Why this address must not be dialled; None when it may be."""
    try:
        parsed: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address} is no IP address"
    parsed = _unwrapped(parsed)
    if _in(parsed, _METADATA):
        return f"{address} is a cloud metadata address"
    if _in(parsed, _NEVER):
        return f"{address} is link-local, multicast, reserved or a tunnel"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed in _COMPATIBLE and int(parsed) > 1:
        return f"{address} is an IPv4 address in a form that no network uses"
    if not allow_private and _in(parsed, _PRIVATE):
        return f"{address} is private or loopback; HEADGATE_RUNNER__ALLOW_PRIVATE=true would allow it"
    return None


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that is really reached. NAT64 counts: IPv6-only clusters reach IPv4 through it."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


class GuardedResolver(AbstractResolver):
    """Resolves, and refuses a name of which any address is off limits."""

    def __init__(self, allow_private: bool, inner: AbstractResolver | None = None) -> None:
        self._allow_private = allow_private
        self._inner = inner or aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host.rstrip(".").lower() in _METADATA_NAMES:
            raise Denied(f"{host} is a cloud metadata server")
        found = await self._inner.resolve(host, port, family)
        for one in found:
            problem = refusal(one["host"], self._allow_private)
            if problem:
                raise Denied(f"{host} resolves to an address that is off limits: {problem}")
        return found

    async def close(self) -> None:
        await self._inner.close()


def connector(
    allow_private: bool, limit: int, resolver: AbstractResolver | None = None
) -> aiohttp.TCPConnector:
    """A connector that dials nothing off limits: names are judged on resolving, every address once
    more when its socket is made, which covers addresses written as such."""

    def guarded_socket(info: Any) -> socket.socket:
        family, kind, protocol, _, where = info
        problem = refusal(where[0], allow_private)
        if problem:
            raise Denied(problem)
        return socket.socket(family, kind, protocol)

    return aiohttp.TCPConnector(
        limit=limit,
        resolver=GuardedResolver(allow_private, resolver),
        ttl_dns_cache=10,
        socket_factory=guarded_socket,
    )
