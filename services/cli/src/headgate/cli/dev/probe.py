"""Ask a process of ours whether it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

TIMEOUT_SECONDS = 2.0

Probe = Callable[[], Awaitable[str | None]]
"""None: ready. Else why not, in a few words."""


def http(port: int, path: str = "/readyz", host: str = "127.0.0.1") -> Probe:
    """Ready when `path` answers 200; else the first line of its answer."""

    async def probe() -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                status, body = await _get(host, port, path)
        except TimeoutError:
            return f"no answer within {TIMEOUT_SECONDS:.0f} s"
        except (OSError, ValueError, IndexError, asyncio.IncompleteReadError):
            return "starting"
        return None if status == 200 else (body.strip().splitlines() or [f"answered {status}"])[0]

    return probe


def listens(port: int, host: str = "127.0.0.1") -> Probe:
    """Ready when somebody accepts connections there."""

    async def probe() -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return "starting"
        writer.close()
        return None

    return probe


async def _get(host: str, port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        await writer.drain()
        head, _, body = (await reader.read(64 * 1024)).partition(b"\r\n\r\n")
        if not body:
            body = await reader.read(64 * 1024)
        return int(head.split()[1]), body.decode("utf-8", "replace")
    finally:
        writer.close()
