"""The HTTP engine: one request starts one run; the run id is the `Idempotency-Key`.

2xx            started          409, 208   the engine had it already
429, 408, 5xx  asked again      timeouts, broken connections  asked again
other          dead-lettered    redirects  dead-lettered: never followed
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import aiohttp

from headgate.common.errors import Misconfigured
from headgate.common.model import HttpAction
from headgate.common.secrets import SecretRef
from headgate.common.templates import TemplateRefused, Templates
from headgate.runner.dial import Denied, connector
from headgate.runner.engines import Exists, Means, Outcome, Refused, Retry, Run, Started, excerpt
from headgate.runner.retry import retry_after

_ANSWER_BYTES = 16 * 1024


class Engine:
    """Talks HTTP/1.1 over one pool of connections."""

    def __init__(self, means: Means) -> None:
        options = means.settings.runner
        self._max_call_seconds = options.max_call_seconds
        self._templates = Templates()
        self._session = aiohttp.ClientSession(
            connector=connector(options.allow_private, limit=options.max_running),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"User-Agent": "headgate"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def start(self, run: Run) -> Outcome:
        action: HttpAction = run.action
        try:
            headers, secrets = self._headers(run, action)
            body = self._body(run, action)
        except TemplateRefused as problem:
            return Refused(
                str(problem), problem.code, "correct the template, apply, then: headgate dlq replay"
            )
        except Misconfigured as problem:
            return Retry(str(problem))
        seconds = min(action.timeout.total_seconds(), self._max_call_seconds)
        try:
            async with self._session.request(
                action.method,
                action.url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:
                answer = excerpt(await _beginning(response), secrets)
                return _verdict(response, answer, secrets)
        except TimeoutError:
            return Retry(f"no answer within {seconds:g} s; the run may have been started")
        except aiohttp.ClientConnectorError as problem:
            if isinstance(problem.os_error, Denied):
                return Refused(
                    f"the address is not allowed: {problem.os_error}",
                    "address-denied",
                    "use an address that engines may have, apply, then: headgate dlq replay",
                )
            return Retry(excerpt(f"cannot connect: {problem.os_error.strerror or problem.os_error}", secrets))
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as problem:
            return Refused(f"the URL cannot be used: {type(problem).__name__}", "bad-action")
        except (aiohttp.ClientError, OSError) as problem:
            return Retry(f"the connection broke ({type(problem).__name__}); the run may have been started")

    def _headers(self, run: Run, action: HttpAction) -> tuple[dict[str, str], tuple[str, ...]]:
        headers: dict[str, str] = {"Content-Type": "application/json"}
        secrets = []
        context = run.context
        for name, value in action.headers.items():
            if isinstance(value, SecretRef):
                text = value.resolve().get_secret_value().decode("utf-8", "replace").strip()
                secrets.append(text)
            else:
                filled = self._templates.fill(value, context, f"headers.{name}")
                text = filled if isinstance(filled, str) else json.dumps(filled)
            if name.lower() == "content-type":
                headers.pop("Content-Type", None)
            headers[name] = excerpt(text, limit=8192)
        headers["Idempotency-Key"] = run.run_id
        headers["traceparent"] = run.traceparent
        return headers, tuple(secrets)

    def _body(self, run: Run, action: HttpAction) -> bytes:
        if action.body is None:
            return json.dumps(run.event).encode()
        return json.dumps(self._templates.fill(action.body, run.context, "body")).encode()


async def _beginning(response: aiohttp.ClientResponse) -> str:
    """The first bytes of the answer. The status has decided already: a break here changes nothing."""
    parts, left = [], _ANSWER_BYTES
    try:
        while left > 0 and (part := await response.content.read(left)):
            parts.append(part)
            left -= len(part)
    except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError):
        response.close()
    if left <= 0:
        response.close()
    return b"".join(parts).decode("utf-8", "replace")


def _verdict(response: aiohttp.ClientResponse, answer: str, secrets: tuple[str, ...]) -> Outcome:
    status = response.status
    said = f"the engine answered {status}" + (f": {answer}" if answer else "")
    if status in (409, 208):
        return Exists(_handle(response, answer, secrets), answer)
    if 200 <= status < 300:
        return Started(_handle(response, answer, secrets), answer)
    if status in (408, 429) or status >= 500:
        return Retry(said, retry_after(response.headers.get("Retry-After"), datetime.now(UTC)), answer)
    if 300 <= status < 400:
        where = excerpt(response.headers.get("Location", "nowhere"), secrets, 200).partition("?")[0]
        return Refused(
            f"the engine answered {status}, a redirect to {where}; redirects are not followed",
            "engine-redirected",
            "put the final address into the trigger's action, apply, then: headgate dlq replay",
            answer,
        )
    return Refused(said, f"engine-{status}", answer=answer)


def _handle(response: aiohttp.ClientResponse, answer: str, secrets: tuple[str, ...]) -> str:
    """Where to look for the run: the Location header, or an id in the answer."""
    location = response.headers.get("Location")
    if location:
        return excerpt(location, secrets, 300)
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    if isinstance(parsed, dict):
        for name in ("id", "run_id", "url"):
            if isinstance(parsed.get(name), str | int):
                return excerpt(str(parsed[name]), secrets, 300)
    return ""
