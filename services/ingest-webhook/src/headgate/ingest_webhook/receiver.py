"""A delivery from its first byte to its answer. The order is the guarantee:

read, verify, publish, wait for every in-sync replica, and only then say 202.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any, Protocol, cast

import orjson
import structlog
from aiohttp import web

from headgate.common.errors import HeadgateError
from headgate.common.failpoints import failpoint
from headgate.common.headers import Headers
from headgate.common.hooks import Event, Refused, Request, Unreadable
from headgate.common.strict_json import JsonLimits
from headgate.common.topics import Topics
from headgate.ingest_webhook.body import CutOff, announced, read_body
from headgate.ingest_webhook.limits import InFlight, Recent
from headgate.ingest_webhook.quick import Accepted
from headgate.ingest_webhook.records import sighting, unreadable
from headgate.ingest_webhook.routes import PREFIX, Broken, Route, Routes
from headgate.ingest_webhook.settings import Limits
from headgate.ingest_webhook.telemetry import ACK_SECONDS, DEAD_LETTERS, DELIVERIES, IN_FLIGHT, Quiet

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = 2
METHOD = "POST"


class Outbox(Protocol):
    """What is asked of the producer: a send whose future resolves on the acknowledgement."""

    def send(
        self, topic: str, *, key: str | bytes | None, value: bytes | None, headers: Headers | None = None
    ) -> asyncio.Future[Any]: ...


class Receiver:
    """The HTTP handler. Knows no Kafka and no registry: they are handed in."""

    def __init__(
        self,
        *,
        routes: Routes,
        outbox: Outbox,
        encode: Callable[[dict[str, Any]], bytes],
        topics: Topics,
        limits: Limits,
        known: Callable[[], bool],
        confirmed: Callable[[bool], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._routes = routes
        self._outbox = outbox
        self._encode = encode
        self._raw, self._dlq = topics.raw, topics.dlq
        self._limits = limits
        self._json = JsonLimits(limits.json_depth, limits.json_nodes, limits.json_names)
        self._known = known
        """Whether a source that is not found does not exist."""
        self._confirmed = confirmed
        """Told after each attempt whether Kafka took it."""
        self._now = now
        self._in_flight = InFlight(limits.in_flight, limits.in_flight_bytes)
        self._recent = Recent()
        self._quiet = Quiet()
        IN_FLIGHT.set_function(lambda: self._in_flight.count)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self._routes.find(request.raw_path)
        if not isinstance(route, Route) or request.method != METHOD:
            return self._elsewhere(request, route)
        try:
            size = announced(request, self._limits)
            if not self._in_flight.enter(size):
                return self._later(route.source, "the service holds as many deliveries as it can")
            try:
                return await self._receive(route, request, await read_body(request, self._limits))
            finally:
                self._in_flight.leave(size)
        except Refused as problem:
            return self._refuse(route, problem)
        except Exception:
            log.exception("A delivery met an error of ours and is answered 503.", source=route.source)
            return self._later(route.source, "the service could not handle this delivery")

    async def _receive(self, route: Route, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        delivery = Request(request.headers, body, self._now(), self._limits.body_bytes, self._json)
        try:
            events = route.hook.receive(route.keys, delivery, route.config)
        except Unreadable as problem:
            return await self._keep(route, delivery, problem)
        wait = route.bucket.take(time.monotonic())
        if wait > 0:
            DELIVERIES.labels(route.source, "429").inc()
            return answer(429, {"error": "too many deliveries for this source"}, retry_after=ceil(wait))
        return await self._publish(route, delivery, events)

    async def _publish(self, route: Route, delivery: Request, events: list[Event]) -> web.StreamResponse:
        seen = [sighting(event, route, delivery) for event in events]
        records = [(self._raw, one.fingerprint, self._encode(one.values), one.headers) for one in seen]
        if not await self._stored(route, records):
            return self._later(route.source, "Kafka did not confirm the delivery in time")
        route.accepted()
        duplicate = False
        for one in seen:
            duplicate |= self._recent.add(one.fingerprint)
        return accepted(seen[0].event_id, duplicate)

    async def _keep(self, route: Route, delivery: Request, problem: Unreadable) -> web.Response:
        """An authentic sender's bytes are never dropped, whatever they are."""
        event_id, key, headers = unreadable(problem, route, delivery, self._raw)
        if not await self._stored(route, [(self._dlq, key, delivery.body, headers)]):
            return self._later(route.source, "Kafka did not confirm the delivery in time")
        route.accepted()
        DEAD_LETTERS.labels(route.source).inc()
        self._quiet.warning(
            "An authentic delivery makes no event and is kept as a dead letter.",
            route.source,
            "unreadable",
            source=route.source,
            event_id=event_id,
            reason=str(problem),
        )
        return answer(202, {"event_id": event_id, "dead_letter": str(problem)})

    async def _stored(self, route: Route, records: list[tuple[str, str, bytes, Headers]]) -> bool:
        """Whether every replica that counts has all records, in time for the sender. No may become yes later:
        the sender sends again, and the processor drops the repeat."""
        started = time.monotonic()
        try:
            acks = [
                self._outbox.send(topic, key=key, value=value, headers=headers)
                for topic, key, value, headers in records
            ]
            failpoint("ingest.produced-before-ack")
            await in_time(acks, route.deadline_seconds)
        except (TimeoutError, HeadgateError) as problem:
            self._confirmed(False)
            reason = str(problem) or f"not confirmed within {route.deadline_seconds:g} seconds"
            self._quiet.warning(
                "A delivery was not stored and is answered 503.",
                route.source,
                "kafka",
                source=route.source,
                reason=reason,
            )
            return False
        failpoint("ingest.acked-before-reply")
        ACK_SECONDS.observe(time.monotonic() - started)
        self._confirmed(True)
        return True

    def _elsewhere(self, request: web.BaseRequest, route: Route | Broken | None) -> web.Response:
        if not request.raw_path.startswith(PREFIX):
            return answer(404, {"error": f"webhooks are taken at {PREFIX}PROVIDER/SOURCE"})
        if isinstance(route, Broken):
            return self._later(
                route.source, "this source is not ready; its operator finds the reason in the log"
            )
        if route is not None:
            return answer(405, {"error": "send POST"}, allow=METHOD)
        if not self._known():
            return self._later("", "the sources are not known yet")
        DELIVERIES.labels("", "404").inc()
        return answer(404, {"error": "there is no such source; check the provider and the name in the URL"})

    def _refuse(self, route: Route, problem: Refused) -> web.Response:
        DELIVERIES.labels(route.source, str(problem.status)).inc()
        if not isinstance(problem, CutOff):
            self._quiet.warning(
                "A delivery was refused.",
                route.source,
                type(problem).__name__,
                source=route.source,
                status=problem.status,
                reason=str(problem),
            )
        return answer(problem.status, {"error": str(problem)})

    def _later(self, source: str, reason: str) -> web.Response:
        DELIVERIES.labels(source, "503").inc()
        return answer(503, {"error": reason}, retry_after=RETRY_AFTER_SECONDS)


async def in_time(acks: list[asyncio.Future[Any]], seconds: float) -> None:
    """Wait for all. One timer that fails them is a third of the price of asyncio.timeout, and this runs often."""
    timer = asyncio.get_running_loop().call_later(seconds, give_up, acks)
    try:
        if len(acks) == 1:
            await acks[0]
        else:
            await asyncio.gather(*acks)
    finally:
        timer.cancel()


def give_up(acks: list[asyncio.Future[Any]]) -> None:
    for ack in acks:
        if not ack.done():
            ack.set_exception(TimeoutError())


def accepted(event_id: str, duplicate: bool) -> web.StreamResponse:
    text = f'{{"event_id":"{event_id}","duplicate":true}}' if duplicate else f'{{"event_id":"{event_id}"}}'
    return cast(web.StreamResponse, Accepted(text.encode()))


def answer(
    status: int, words: dict[str, object], retry_after: int | None = None, allow: str | None = None
) -> web.Response:
    response = web.Response(status=status, body=orjson.dumps(words), content_type="application/json")
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    if allow is not None:
        response.headers["Allow"] = allow
    return response
