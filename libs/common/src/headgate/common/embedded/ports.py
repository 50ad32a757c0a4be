"""Ports on loopback: is one taken, and which are free."""

from __future__ import annotations

import random
import socket

# Below Linux's ephemeral range, so that no outgoing connection takes one between our look and our use.
FIRST, LAST = 30_000, 32_700


def is_open(port: int, host: str = "127.0.0.1") -> bool:
    """Somebody accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def can_listen(port: int, host: str = "127.0.0.1") -> bool:
    """We could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free(count: int = 1) -> list[int]:
    """Distinct ports that nobody listens on at this moment."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(FIRST, LAST), LAST - FIRST):
        if can_listen(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {FIRST} and {LAST} on loopback")
