"""Ports on loopback: is one taken, and which are free."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below Linux's ephemeral range, so that no outgoing connection takes one between our look and our use.
FIRST, LAST = 28_000, 32_700

_reserved: dict[int, int] = {}
"""The descriptor that holds each port's lock: never closed, since the lock lasts as long as we do."""


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
    """Distinct ports that nobody listens on, and that no other call of this, in any process of ours that
    still runs, was given: a server may take long until it listens."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(FIRST, LAST), LAST - FIRST):
        if can_listen(port) and _reserve(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between {FIRST} and {LAST} on loopback")


def _reserve(port: int) -> bool:
    """Until this process ends; the kernel lets go of the lock then, however it ends."""
    if port in _reserved:
        return False
    locks = Path(tempfile.gettempdir()) / f"headgate-free-ports-{os.getuid()}"
    locks.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(locks / str(port), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return False
    _reserved[port] = handle
    return True
