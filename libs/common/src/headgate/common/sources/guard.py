"""Where a source may connect to. The decision is made on the address actually dialled, after the name
was resolved, so that a name cannot say one thing to the guard and another to the socket.

Denied: everything that is not the public Internet, unless a setting allows its network; and the
metadata services of clouds always. `addresses` has the tables.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import httpcore
import httpx

from headgate.common.addresses import EMBEDDING, Network, refusal
from headgate.common.errors import Misconfigured, Transient

Resolve = Callable[[str, int], Awaitable[list[str]]]

_OTHERWISE = "HEADGATE_EGRESS_ALLOW lists the private networks that sources may reach"
_ODD_NUMBER = re.compile(r"^(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?$", re.IGNORECASE)


class Refused(Misconfigured):
    """The address is one that sources may not reach; a person must change the URL or the setting."""


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
        if any(network.version == 6 and network.overlaps(one) for one in EMBEDDING):
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
            reason = refusal(address, self._allowed, _OTHERWISE)
            if reason:
                raise Refused(f"connection to {host} refused: {reason}")
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
