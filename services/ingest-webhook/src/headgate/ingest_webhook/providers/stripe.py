"""Stripe: events of an account or a Connect platform, named as Stripe names them: `invoice.paid`."""

from typing import Annotated

from pydantic import Field

from headgate.common.fingerprints import of_bytes
from headgate.common.hooks import BadSignature, Event, Hook, HookConfig, Request, moment, text_at
from headgate.ingest_webhook.signatures import in_window, verify


class Stripe(HookConfig):
    """Fires for the events a Stripe webhook endpoint receives. The secret is used as Stripe shows it, whsec_ included."""

    window_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=3600,
            title="Window",
            description="How far the signed timestamp may be from our clock, either way, in seconds.",
            json_schema_extra={"advanced": True},
        ),
    ] = 300


def receive(secrets: tuple[bytes, ...], request: Request, config: Stripe) -> list[Event]:
    times, signatures = [], []
    for part in request.require("Stripe-Signature").split(","):
        name, _, value = part.partition("=")
        if name == "t":
            times.append(value)
        elif name == "v1":  # v0 is for Stripe's own tests
            signatures.append(value)
    if len(times) != 1:
        raise BadSignature("the Stripe-Signature header does not have exactly one t=")
    time = in_window(times[0], request, config.window_seconds)
    verify(signatures, secrets, time.encode() + b"." + request.body)
    document, text = request.json()
    created = document.get("created") if isinstance(document, dict) else None
    return [
        Event(
            key=text_at(document, "id") or of_bytes(request.body),
            type=text_at(document, "type") or "unknown",
            subject=text_at(document, "data", "object", "id") or text_at(document, "related_object", "id"),
            occurred_at=moment(created, otherwise=request.received_at),
            data=text,
        )
    ]


HOOK = Hook(name="stripe", config=Stripe, receive=receive, deadline_seconds=9.0)
