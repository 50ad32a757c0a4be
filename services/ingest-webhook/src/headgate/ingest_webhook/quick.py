"""The one answer that is given thousands of times a second, written in one piece.

aiohttp's Response builds a header map, asks hooks and serialises it again for each answer: a fifth of what a
delivery costs. This has only what aiohttp's connection asks of an answer. All others stay Responses.
"""

from email.utils import formatdate
from time import time

from aiohttp import web

MOST_UNREAD_BYTES = 65_536


class Accepted:
    """202 with a small JSON body."""

    __slots__ = ("_body", "keep_alive")
    status = 202

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.keep_alive: bool | None = None

    async def prepare(self, request: web.BaseRequest) -> None:
        """Called first; writes everything."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the sender went away before its answer")
        self.keep_alive = request.keep_alive
        close = b"" if self.keep_alive else b"Connection: close\r\n"
        transport.write(b"%b%bContent-Length: %d\r\n\r\n%b" % (head(), close, len(self._body), self._body))
        if transport.get_write_buffer_size() > MOST_UNREAD_BYTES:  # sends and never reads
            transport.abort()

    async def write_eof(self) -> None:
        """Called last; nothing is left to write."""


_second, _head = 0, b""


def head() -> bytes:
    """Status line and the headers that are the same for a second."""
    global _second, _head
    now = int(time())
    if now != _second:
        date = formatdate(now, usegmt=True).encode()
        _head = b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nDate: %b\r\n" % date
        _second = now
    return _head
