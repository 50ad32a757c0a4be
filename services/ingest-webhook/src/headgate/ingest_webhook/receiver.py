"""A delivery from its first byte to its answer. The order is the guarantee:

read, verify, publish, wait for every in-sync replica, and only then say 202.

There are two lanes and one way through. A delivery that came whole is taken by its connection and answered by the
acknowledgement itself, without a task or a future (`receive`); what comes in pieces, or is no delivery at all,
is aiohttp's to wait for (`__call__`). Both end in `_take`.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any, Protocol, cast

import structlog
from aiohttp import web

from headgate.common import hooks
from headgate.common.errors import HeadgateError
from headgate.common.failpoints import failpoint
from headgate.common.headers import Headers
from headgate.common.hooks import Event, Refused, Request, Unreadable
from headgate.common.strict_json import JsonLimits
from headgate.common.topics import Topics
from headgate.ingest_webhook.answers import Answer, accepted, answer
from headgate.ingest_webhook.body import CutOff, NoRoom, read_body, too_large
from headgate.ingest_webhook.limits import InFlight, Recent
from headgate.ingest_webhook.records import Sighting, sighting, unreadable
from headgate.ingest_webhook.routes import PREFIX, Broken, Route, Routes, path_of
from headgate.ingest_webhook.settings import Limits
from headgate.ingest_webhook.telemetry import ACK_SECONDS, DEAD_LETTERS, DELIVERIES, IN_FLIGHT, Quiet
from headgate.ingest_webhook.waiting import Deadlines, Waiting

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = 2
METHOD = "POST"

Record = tuple[str, str, bytes, Headers]
"""Topic, key, value, headers."""
Reply = Callable[[Answer], None]


class Outbox(Protocol):
    """What is asked of the producer: to take a record, and to tell in the loop what became of it."""

    def hand_over(
        self,
        topic: str,
        key: str | bytes | None,
        value: bytes | None,
        headers: Headers | None,
        told: Callable[[Exception | None, Any], None],
    ) -> None: ...


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
        self._deadlines = Deadlines()
        IN_FLIGHT.set_function(lambda: self._in_flight.count)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        return cast(web.StreamResponse, await self._wait_for(request))

    async def _wait_for(self, request: web.BaseRequest) -> Answer:
        route = self._routes.find(request.raw_path)
        if not isinstance(route, Route) or request.method != METHOD:
            return self._elsewhere(request, route)
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            if not self._in_flight.grow(size):
                raise NoRoom
            held += size

        try:
            if not self._in_flight.enter(0):
                return self._full(route)
            try:
                body = await read_body(request, self._limits, grow)
                answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

                def reply(given: Answer) -> None:
                    if not answered.done():  # given up when the service stops
                        answered.set_result(given)

                self._take(route, request.headers, body, reply)
                return await answered
            finally:
                self._in_flight.leave(held)
        except NoRoom:
            return self._full(route)
        except Refused as problem:
            return self._refuse(route, problem)
        except Exception:
            return self._our_error(route)

    def route_of(self, method: str, path: str) -> Route | None:
        """Where `receive` takes a delivery to; None where there is nothing to deliver to."""
        if method != METHOD:
            return None
        route = self._routes.find(path)
        return route if isinstance(route, Route) else None

    def receive(self, route: Route, headers: hooks.Headers, body: bytes, reply: Reply) -> None:
        """Take a delivery that came whole. `reply` is called once, here or later."""
        size = len(body)
        if size > self._limits.body_bytes:
            reply(self._refuse(route, too_large(self._limits)))
        elif not self._in_flight.enter(size):
            reply(self._full(route))
        else:

            def leave(given: Answer) -> None:
                self._in_flight.leave(size)
                reply(given)

            self._take(route, headers, body, leave)

    def _take(self, route: Route, headers: hooks.Headers, body: bytes, reply: Reply) -> None:
        """Verify and publish. Whatever happens, `reply` is called once."""
        try:
            given = self._verified(route, headers, body, reply)
        except Refused as problem:
            given = self._refuse(route, problem)
        except Exception:
            given = self._our_error(route)
        if given is not None:
            reply(given)

    def _verified(self, route: Route, headers: hooks.Headers, body: bytes, reply: Reply) -> Answer | None:
        """The answer, where it is known before Kafka has spoken."""
        delivery = Request(headers, body, self._now(), self._limits.body_bytes, self._json)
        try:
            events = route.hook.receive(route.keys, delivery, route.config)
        except Unreadable as problem:
            return self._keep(route, delivery, problem, reply)
        wait = route.bucket.take(time.monotonic())
        if wait > 0:
            DELIVERIES.labels(route.source, "429").inc()
            return answer(429, {"error": "too many deliveries for this source"}, retry_after=ceil(wait))
        return self._publish(route, delivery, events, reply)

    def _publish(self, route: Route, delivery: Request, events: list[Event], reply: Reply) -> Answer | None:
        seen: list[Sighting] = []
        records: list[Record] = []
        for event in events:
            one = sighting(event, route, delivery)
            seen.append(one)
            records.append((self._raw, one.fingerprint, self._encode(one.values), one.headers))

        def stored() -> Answer:
            duplicate = False
            for one in seen:
                duplicate |= self._recent.add(one.fingerprint)
            return accepted(seen[0].event_id, duplicate)

        return self._store(route, records, stored, reply)

    def _keep(self, route: Route, delivery: Request, problem: Unreadable, reply: Reply) -> Answer | None:
        """An authentic sender's bytes are never dropped, whatever they are."""
        event_id, key, headers = unreadable(problem, route, delivery, self._raw)
        reason = str(problem)

        def stored() -> Answer:
            DEAD_LETTERS.labels(route.source).inc()
            self._quiet.warning(
                "An authentic delivery makes no event and is kept as a dead letter.",
                route.source,
                "unreadable",
                source=route.source,
                event_id=event_id,
                reason=reason,
            )
            return answer(202, {"event_id": event_id, "dead_letter": reason})

        return self._store(route, [(self._dlq, key, delivery.body, headers)], stored, reply)

    def _store(
        self, route: Route, records: list[Record], stored: Callable[[], Answer], reply: Reply
    ) -> Answer | None:
        """Answer with `stored` once every replica that counts has all records, or 503 where that is not in time
        for the sender. No may become yes later: the sender sends again, and the processor drops the repeat."""
        started = time.monotonic()

        def settled(problem: Exception | None) -> None:
            try:
                given = self._stored(route, started, stored) if problem is None else self._not(route, problem)
            except Exception:
                given = self._our_error(route)
            reply(given)

        waiting = Waiting(len(records), settled, self._deadlines, started + route.deadline_seconds)
        try:
            for topic, key, value, headers in records:
                self._outbox.hand_over(topic, key, value, headers, waiting.told)
        except Exception as problem:
            waiting.abandon()
            if isinstance(problem, HeadgateError):
                return self._not(route, problem)
            raise
        failpoint("ingest.produced-before-ack")
        return None

    def _stored(self, route: Route, started: float, stored: Callable[[], Answer]) -> Answer:
        failpoint("ingest.acked-before-reply")
        ACK_SECONDS.observe(time.monotonic() - started)
        self._confirmed(True)
        route.accepted()
        return stored()

    def _not(self, route: Route, problem: Exception) -> Answer:
        if not isinstance(problem, TimeoutError | HeadgateError):
            raise problem
        self._confirmed(False)
        reason = str(problem) or f"not confirmed within {route.deadline_seconds:g} seconds"
        self._quiet.warning(
            "A delivery was not stored and is answered 503.",
            route.source,
            "kafka",
            source=route.source,
            reason=reason,
        )
        return self._later(route.source, "Kafka did not confirm the delivery in time")

    def _elsewhere(self, request: web.BaseRequest, route: Route | Broken | None) -> Answer:
        if not path_of(request.raw_path).startswith(PREFIX):
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

    def _refuse(self, route: Route, problem: Refused) -> Answer:
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

    def _later(self, source: str, reason: str) -> Answer:
        DELIVERIES.labels(source, "503").inc()
        return answer(503, {"error": reason}, retry_after=RETRY_AFTER_SECONDS)

    def _full(self, route: Route) -> Answer:
        return self._later(route.source, "the service holds as many deliveries as it can")

    def _our_error(self, route: Route) -> Answer:
        """Called while the error is being handled."""
        log.exception("A delivery met an error of ours and is answered 503.", source=route.source)
        return self._later(route.source, "the service could not handle this delivery")
