"""What surrounds a provider's requests, one httpx transport per concern, stacked by `client_for`.

A provider is handed the client and knows none of this; a test hands it a MockTransport instead.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from datetime import datetime

import httpx

from headgate.common.errors import Misconfigured, Transient
from headgate.common.sources.clock import Clock
from headgate.common.sources.times import http_date

MAX_BODY_BYTES = 10 * 1024 * 1024
QUICK_RETRIES = 2


class Around(httpx.AsyncBaseTransport):
    """A transport around another."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def aclose(self) -> None:
        await self.inner.aclose()


class Authorized(Around):
    """Adds the credential, to requests of the source's own origin only: redirects do not carry it on. (The step
    from http up to https stays at home.)

    Refuses the step from https down to http, and addresses with a user name in them.
    """

    def __init__(
        self, inner: httpx.AsyncBaseTransport, home: httpx.URL, header: Callable[[], tuple[str, str] | None]
    ) -> None:
        super().__init__(inner)
        self._home = home
        self._origins = {origin(home)}
        if origin(home) == ("http", home.host, 80):
            self._origins.add(("https", home.host, 443))
        self._header = header

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.userinfo:
            raise Misconfigured("an address with a user name in it is refused; give the credential as `auth`")
        if self._home.scheme == "https" and request.url.scheme != "https":
            raise Misconfigured(f"{self._home.host} leads from https to http; refused. Correct the address")
        header = self._header()
        if header is not None and origin(request.url) in self._origins:
            request.headers[header[0]] = header[1]
        elif header is not None:
            # httpx carries every header but Authorization along a redirect.
            request.headers.pop(header[0], None)
        return await self.inner.handle_async_request(request)


class Patient(Around):
    """Asks again at once where a connection broke or a gateway stumbled; longer trouble is the runtime's."""

    def __init__(self, inner: httpx.AsyncBaseTransport, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for attempt in range(QUICK_RETRIES):
            try:
                response = await self.inner.handle_async_request(request)
                if response.status_code not in (502, 504) or request.method != "GET":
                    return response
                await response.aclose()
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
                if request.method != "GET":
                    raise
            await self._clock.sleep(0.2 * 2**attempt * (0.5 + random.random() / 2))  # noqa: S311 - spread
        return await self.inner.handle_async_request(request)


class Budget:
    """A token bucket: so many requests a second, shared by all sources of one account."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    async def take(self) -> None:
        """Wait for one request's worth. Those who wait are served in turn: each takes its token at once."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._per_second)


class Limited(Around):
    """Keeps to the account's budget."""

    def __init__(self, inner: httpx.AsyncBaseTransport, budget: Budget) -> None:
        super().__init__(inner)
        self._budget = budget

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._budget.take()
        return await self.inner.handle_async_request(request)


class Dated(Around):
    """Remembers what time the provider says it is: a pod's clock must not decide what is new."""

    latest: datetime | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        self.latest = http_date(response.headers.get("date")) or self.latest
        return response


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise Transient(f"the answer is larger than {self._limit} bytes; ask for smaller pages")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class Bounded(Around):
    """Stops reading a body at the limit. Compression is not offered, so what is counted is what is held."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        response = await self.inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise Transient("the answer is compressed although that was not offered")
        stream = response.stream
        if isinstance(stream, httpx.AsyncByteStream):
            response.stream = _BoundedStream(stream, MAX_BODY_BYTES)
        return response


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Scheme, host and port: what a credential belongs to."""
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
