"""PagerDuty webhooks, version 3: `incident.triggered` and its kin."""

from headgate.common.fingerprints import of_bytes
from headgate.common.hooks import Event, Hook, HookConfig, Request, moment, text_at
from headgate.ingest_webhook.signatures import verify


class PagerDuty(HookConfig):
    """Fires for what a PagerDuty webhook subscription delivers."""


def receive(secrets: tuple[bytes, ...], request: Request, config: PagerDuty) -> list[Event]:
    sent = request.require("X-PagerDuty-Signature").split(",")
    verify([one[3:] for one in sent if one.startswith("v1=")], secrets, request.body)
    document, text = request.json()
    return [
        Event(
            # The id in the body is signed and the same on every attempt; the header is only the latter.
            key=text_at(document, "event", "id") or request.header("X-Webhook-Id") or of_bytes(request.body),
            type=text_at(document, "event", "event_type") or "unknown",
            subject=text_at(document, "event", "data", "id"),
            occurred_at=moment(text_at(document, "event", "occurred_at"), otherwise=request.received_at),
            data=text,
        )
    ]


HOOK = Hook(
    name="pagerduty",
    config=PagerDuty,
    receive=receive,
    deadline_seconds=4.5,
    attributes=("x-webhook-id", "x-webhook-subscription"),
)
