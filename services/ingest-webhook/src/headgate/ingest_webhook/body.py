"""Reading a body that may be too large, too slow, or never end."""

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader, web

from headgate.common.hooks import Refused, TooMuch
from headgate.ingest_webhook.settings import Limits

PATIENCE_SECONDS = 2.0  # a body's speed is not judged before


class TooSlow(Refused):
    status = 408


class CutOff(Refused):
    """The sender went away in the middle; nobody reads the answer."""


class NoRoom(Exception):
    """The bodies that are held leave no room for the rest of this one."""


Grow = Callable[[int], None]
"""Called with the size of each piece before it is kept; may raise NoRoom."""


async def read_body(request: web.BaseRequest, limits: Limits, grow: Grow) -> bytes:
    """The raw bytes as sent (without chunking, with any content encoding)."""
    if (request.content_length or 0) > limits.body_bytes:
        raise too_large(limits)
    content = request.content
    if content.is_eof():  # the whole body came with the head, as most do
        body = content.read_nowait()
        if len(body) > limits.body_bytes:
            raise too_large(limits)
        grow(len(body))
        return body
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _read_slowly(content, limits, grow)
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {limits.body_seconds:g} seconds") from None
    except (ConnectionError, web.RequestPayloadError) as problem:
        raise CutOff("the body ended too early") from problem


async def _read_slowly(content: StreamReader, limits: Limits, grow: Grow) -> bytes:
    now = asyncio.get_running_loop().time
    started, body = now(), bytearray()
    while chunk := await content.readany():
        if len(body) + len(chunk) > limits.body_bytes:
            raise too_large(limits)
        grow(len(chunk))
        body += chunk
        elapsed = now() - started
        if elapsed > PATIENCE_SECONDS and len(body) < elapsed * limits.body_bytes_per_second:
            raise TooSlow(f"the body comes slower than {limits.body_bytes_per_second} bytes a second")
    return bytes(body)


def too_large(limits: Limits) -> TooMuch:
    return TooMuch(f"the body is larger than {limits.body_bytes} bytes")
