"""GitHub: repositories, organisations and apps. One delivery is one event, `issues.opened` for an opened issue."""

from urllib.parse import parse_qs

from headgate.common.fingerprints import of_bytes
from headgate.common.hooks import Event, Hook, HookConfig, Request, Unreadable, text_at
from headgate.ingest_webhook.signatures import after_prefix, verify

FORM = "application/x-www-form-urlencoded"


class GitHub(HookConfig):
    """Fires for what a GitHub webhook delivers. GitHub does not send again by itself what it got a 503 for."""


def receive(secrets: tuple[bytes, ...], request: Request, config: GitHub) -> list[Event]:
    sent = after_prefix(request.require("X-Hub-Signature-256"), "sha256=")
    verify([sent], secrets, request.body)
    document, text = (
        request.json() if request.media_type() != FORM else request.parse(in_form(request.content()))
    )
    kind = request.header("X-GitHub-Event") or "unknown"
    action = text_at(document, "action")
    return [
        Event(
            key=request.header("X-GitHub-Delivery") or of_bytes(request.body),
            type=f"{kind}.{action}" if action else kind,
            subject=text_at(document, "repository", "full_name")
            or text_at(document, "organization", "login"),
            occurred_at=request.received_at,
            data=text,
        )
    ]


def in_form(content: bytes) -> bytes:
    """The JSON in `payload=...`: what GitHub sends where nobody changed its default content type."""
    try:
        # As text: given bytes, parse_qs takes ASCII alone, percent-encoded or not.
        form = parse_qs(content.decode(), strict_parsing=True, errors="strict", max_num_fields=8)
        payloads = form.get("payload", [])
    except ValueError:
        payloads = []
    if len(payloads) != 1:
        raise Unreadable("the form has no single field named payload; set the webhook to application/json")
    return payloads[0].encode()


HOOK = Hook(
    name="github",
    config=GitHub,
    receive=receive,
    deadline_seconds=9.0,
    attributes=("x-github-event", "x-github-delivery", "x-github-hook-id"),
)
