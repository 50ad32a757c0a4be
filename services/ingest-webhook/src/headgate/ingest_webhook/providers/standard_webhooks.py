"""Standard Webhooks, the convention of standardwebhooks.com, and Svix, whose headers it grew out of."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from headgate.common.errors import Misconfigured
from headgate.common.hooks import (
    BadSignature,
    Event,
    Hook,
    HookConfig,
    Request,
    moment,
    plain_secrets,
    text_at,
)
from headgate.ingest_webhook.signatures import in_base64, in_window, sent_bytes, verify

SHORTEST_KEY_BYTES = 16


class StandardWebhooks(HookConfig):
    """Fires for deliveries signed by the Standard Webhooks convention (headers webhook-* or svix-*)."""

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


def keys(secrets: Sequence[bytes], config: StandardWebhooks) -> tuple[bytes, ...]:
    """The bytes behind `whsec_...`."""
    return tuple(key_of(secret) for secret in plain_secrets(secrets, config))


def key_of(secret: bytes) -> bytes:
    try:
        key = b64decode(secret.removeprefix(b"whsec_"), validate=True)
    except NotBase64:
        raise Misconfigured(
            "a Standard Webhooks secret is base64 behind whsec_; copy it again from the sender"
        ) from None
    if len(key) < SHORTEST_KEY_BYTES:
        raise Misconfigured(
            f"a Standard Webhooks secret has at least {SHORTEST_KEY_BYTES} bytes; this one is shorter"
        )
    return key


def receive(secrets: tuple[bytes, ...], request: Request, config: StandardWebhooks) -> list[Event]:
    family = "webhook" if request.header("webhook-signature") is not None else "svix"
    sent = request.require(f"{family}-signature").split(" ")
    message_id = request.require(f"{family}-id")
    if "." in message_id:
        raise BadSignature("the message id holds a dot, which would make the signed text ambiguous")
    time = in_window(request.require(f"{family}-timestamp"), request, config.window_seconds)
    message = b".".join((sent_bytes(message_id), time.encode(), request.body))
    verify([one[3:] for one in sent if one.startswith("v1,")], secrets, message, spell=in_base64)
    document, text = request.json()
    return [
        Event(
            key=message_id,
            type=text_at(document, "type") or text_at(document, "event_type") or "unknown",
            subject=text_at(document, "data", "id"),
            occurred_at=moment(
                text_at(document, "timestamp"), otherwise=moment(int(time), request.received_at)
            ),
            data=text,
        )
    ]


HOOK = Hook(
    name="standard-webhooks",
    config=StandardWebhooks,
    receive=receive,
    prepare=keys,
    attributes=("webhook-id", "svix-id"),
)
