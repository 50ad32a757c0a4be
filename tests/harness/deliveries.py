"""One delivery of GitHub, byte for byte, and waiting until a receiver has done with others."""

import asyncio
import hashlib
import hmac
from typing import Any

from tests.harness.waiting import until

SECRET = "canary-5b2e"
BODY = b'{"action":"opened"}'
PATH = "/webhooks/github/repo"


def signed(body: bytes = BODY, *more: tuple[str, bytes]) -> list[tuple[str, bytes]]:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return [("X-Hub-Signature-256", f"sha256={signature}".encode()), ("X-GitHub-Delivery", b"d"), *more]


def whole() -> bytes:
    """A delivery on a connection that stays open."""
    lines = "".join(f"{name}: {value.decode()}\r\n" for name, value in signed())
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


async def until_taken(door: Any) -> None:
    """Deliveries are accepted, perhaps after connections have been noticed to be gone."""

    async def taken() -> bool:
        try:
            return bool((await door.post(PATH, signed(), BODY)).status == 202)
        except (ConnectionError, asyncio.IncompleteReadError):
            return False

    await until("deliveries are accepted again", taken, seconds=20, every=0.01)
