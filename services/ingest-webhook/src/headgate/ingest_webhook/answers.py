"""What a delivery is answered, as the bytes that go out.

aiohttp's Response builds a header map, asks hooks and serialises it again for each answer: a fifth of what a
delivery cost. An Answer is written in one piece, by our own lane or, where aiohttp's task took the request, through
the few methods that it asks of an answer.
"""

from email.utils import formatdate
from http import HTTPStatus
from time import time

import orjson
from aiohttp import HttpVersion11, web

MOST_UNREAD_BYTES = 65_536


class Answer:
    """A status and a small JSON body."""

    __slots__ = ("_body", "_more", "keep_alive", "status")

    def __init__(self, status: int, body: bytes, more: bytes = b"") -> None:
        self.status = status
        self._body = body
        self._more = more
        self.keep_alive: bool | None = None

    def on_the_wire(self, *, keep_alive: bool, with_body: bool = True) -> bytes:
        more = self._more if keep_alive else self._more + b"Connection: close\r\n"
        body = self._body if with_body else b""
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (head(self.status), more, len(self._body), body)

    async def prepare(self, request: web.BaseRequest) -> None:
        """Called first by aiohttp; writes everything."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the sender went away before its answer")
        self.keep_alive = request.keep_alive and request.version >= HttpVersion11
        with_body = request.method != "HEAD"
        transport.write(self.on_the_wire(keep_alive=self.keep_alive, with_body=with_body))
        if transport.get_write_buffer_size() > MOST_UNREAD_BYTES:  # sends and never reads
            transport.abort()

    async def write_eof(self) -> None:
        """Called last by aiohttp; nothing is left to write."""


def accepted(event_id: str, duplicate: bool) -> Answer:
    text = f'{{"event_id":"{event_id}","duplicate":true}}' if duplicate else f'{{"event_id":"{event_id}"}}'
    return Answer(202, text.encode())


def answer(
    status: int, words: dict[str, object], retry_after: int | None = None, allow: str | None = None
) -> Answer:
    more = ""
    if retry_after is not None:
        more += f"Retry-After: {retry_after}\r\n"
    if allow is not None:
        more += f"Allow: {allow}\r\n"
    return Answer(status, orjson.dumps(words), more.encode())


_second = 0
_heads: dict[int, bytes] = {}


def head(status: int) -> bytes:
    """Status line and the headers that are the same for a second."""
    global _second
    now = int(time())
    if now != _second:
        _heads.clear()
        _second = now
    found = _heads.get(status)
    if found is None:
        found = _heads[status] = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Date: {formatdate(now, usegmt=True)}\r\n"
        ).encode()
    return found
