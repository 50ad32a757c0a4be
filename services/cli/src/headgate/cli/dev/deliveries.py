"""The demo's webhooks: signed as GitHub signs them, and sent."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.common.errors import Unreachable

if TYPE_CHECKING:
    import httpx

PATH = "/webhooks/github/demo-github"
RETRY_SECONDS = 0.2


@dataclass(frozen=True)
class Delivery:
    """One webhook: GitHub's id of it, its kind, its body."""

    id: str
    event: str
    label: str
    body: bytes

    def headers(self, secret: str) -> dict[str, str]:
        digest = hmac.new(secret.encode(), self.body, hashlib.sha256).hexdigest()
        return {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/demo",
            "X-GitHub-Event": self.event,
            "X-GitHub-Delivery": self.id,
            "X-Hub-Signature-256": f"sha256={digest}",
        }


@dataclass(frozen=True)
class Answer:
    """What ingest said to a delivery."""

    delivery: Delivery
    status: int
    body: dict[str, Any]

    @property
    def event_id(self) -> str:
        return str(self.body.get("event_id", ""))


def deliveries(folder: Path) -> list[Delivery]:
    """One opened issue three times, as GitHub's `Redeliver` does, and one edited issue. Fresh ids each time."""
    opened, edited = str(uuid.uuid4()), str(uuid.uuid4())
    first = Delivery(opened, "issues", "issues.opened", (folder / "issues.opened.json").read_bytes())
    other = Delivery(edited, "issues", "issues.edited", (folder / "issues.edited.json").read_bytes())
    return [first, first, first, other]


async def send(url: str, secret: str, wanted: Sequence[Delivery], seconds: float) -> list[Answer]:
    """One after another. While ingest says 503 (its view of the triggers is not fresh yet) we do what a
    sender should: try again."""
    import httpx

    deadline = time.monotonic() + seconds
    answers = []
    async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as client:
        for delivery in wanted:
            answers.append(await _send(client, secret, delivery, deadline))
    return answers


async def _send(client: httpx.AsyncClient, secret: str, delivery: Delivery, deadline: float) -> Answer:
    import httpx

    while True:
        try:
            answer = await client.post(PATH, content=delivery.body, headers=delivery.headers(secret))
        except httpx.HTTPError as problem:
            raise Unreachable(
                f"ingest at {client.base_url} did not answer a webhook ({type(problem).__name__})"
            ) from problem
        if answer.status_code != 503 or time.monotonic() > deadline:
            return Answer(delivery, answer.status_code, _json(answer))
        await asyncio.sleep(RETRY_SECONDS)


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
