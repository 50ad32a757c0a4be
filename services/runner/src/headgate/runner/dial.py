"""Which addresses an HTTP action may reach. Decided on the address that is dialled, never on a name.

A name is resolved once, inside the client, and what comes out is judged here: checking first and
connecting later would resolve twice, and a rebinding name server answers the second time differently.
`headgate.common.addresses` has the tables.
"""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from headgate.common import addresses

_OTHERWISE = "HEADGATE_RUNNER__ALLOW_PRIVATE=true would allow it"
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata"})


class Denied(OSError):
    """The address is off limits. Trying again does not help."""


def refusal(address: str, allow_private: bool) -> str | None:
    """Why this address must not be dialled; None when it may be."""
    return addresses.refusal(address, addresses.EVERYTHING if allow_private else (), _OTHERWISE)


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
