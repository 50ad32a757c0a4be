"""Which addresses we may connect to on a stranger's word: one judgement for sources that ask and engines that run.

Decided on the address that is dialled, never on a name: a name that is checked first and resolved again later
may say two things. The tables are ours: `ipaddress.is_global` calls several ways to write 169.254.169.254 global.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


EVERYTHING = _networks("0.0.0.0/0", "::/0")
"""As `allowed`: all private networks too. What is never allowed stays so."""

_METADATA = _networks(
    "169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/64"
)
_NEVER = _networks(
    "169.254.0.0/16", "fe80::/10",  # link-local
    "224.0.0.0/4", "ff00::/8", "240.0.0.0/4",  # multicast, reserved, broadcast
    "2002::/16", "2001::/32", "64:ff9b:1::/48", "100::/64", "5f00::/16",  # tunnels and discard
)  # fmt: skip
_PRIVATE_V4 = _networks(
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
)  # fmt: skip
_PUBLIC_V6 = ip_network("2000::/3")
_PRIVATE_V6 = _networks("2001::/23", "2001:db8::/32", "3fff::/20")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
EMBEDDING = (_NAT64, *_networks("64:ff9b:1::/48", "2002::/16"), _COMPATIBLE)
"""IPv6 networks whose addresses hold an IPv4 address."""


def refusal(text: str, allowed: Sequence[Network], otherwise: str) -> str | None:
    """Why this address must not be dialled; None when it may be. `otherwise` says what would allow a private one."""
    try:
        address: Address = ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text} is no IP address"
    address = _unwrapped(address)
    if _in(address, _METADATA):
        return f"{text} is a cloud metadata address, which is never allowed"
    if _in(address, _NEVER):
        return f"{text} is link-local, multicast, reserved or a tunnel, which is never allowed"
    if isinstance(address, IPv6Address) and address in _COMPATIBLE and int(address) > 1:
        return f"{text} is an IPv4 address in a form that no network uses"
    if _in(address, allowed) or _public(address):
        return None
    return f"{text} is private or loopback; {otherwise}"


def _public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _in(address, _PRIVATE_V4)
    return address in _PUBLIC_V6 and not _in(address, _PRIVATE_V6)


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that is really reached. NAT64 counts: IPv6-only clusters reach IPv4 through it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
