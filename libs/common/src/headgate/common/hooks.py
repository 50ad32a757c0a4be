"""The hook shape: all that a webhook provider writes, and what it is given.

A provider is one module: a config model, `receive(secrets, request, config) -> [Event, ...]`, one `HOOK = Hook(...)`.
`receive` is pure. It verifies `request.body`, the bytes as they were sent, before it reads anything out of them.
The service owns the rest: HTTP, limits, secrets, Kafka, and the answer.

What `receive` may raise:

Refused
├── BadSignature      401: missing, wrong, or given twice
├── Stale             401: signed too long ago, or in the future
├── UnsupportedType   415: an authentic sender speaks a format we do not read
└── TooMuch           413: it inflates beyond the limit
Unreadable            an authentic sender's bytes make no event: they are kept on the dead-letter topic
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from headgate.common import inflate, strict_json
from headgate.common.errors import HeadgateError, Misconfigured
from headgate.common.secrets import SecretRef


class Refused(HeadgateError):
    """The sender is told no, for good. Its text is the answer's body: it must give nothing away."""

    status: ClassVar[int] = 400


class BadSignature(Refused):
    """Nobody who holds the secret sent this."""

    status = 401


class Stale(Refused):
    """Signed by the right sender, at another time: perhaps recorded and sent again."""

    status = 401


class UnsupportedType(Refused):
    """The content type or encoding is none we read."""

    status = 415


class TooMuch(Refused):
    """The body, inflated, passes the limit."""

    status = 413


class Unreadable(HeadgateError):
    """The sender is who it says, and its bytes still make no event. Kept whole, with this text as the reason."""


class Headers(Protocol):
    """What a provider may ask of the headers: names compare without case."""

    def get(self, name: str, /) -> str | None: ...

    def getall(self, name: str, default: list[str], /) -> list[str]: ...


class Request(NamedTuple):
    """One delivery, as a value. `body` is what was sent; `content()` is what it says."""

    headers: Headers
    body: bytes
    received_at: datetime
    max_content_bytes: int = 1_048_576
    limits: strict_json.JsonLimits = strict_json.DEFAULT_LIMITS

    def header(self, name: str) -> str | None:
        """The header's value. One that came twice is refused: two readers could pick differently."""
        found = self.headers.getall(name, [])
        if len(found) > 1:
            raise BadSignature(f"the header {name} came {len(found)} times; send it once")
        return found[0] if found else None

    def require(self, name: str) -> str:
        """The header's value, or a refusal that names it."""
        value = self.header(name)
        if not value:
            raise BadSignature(f"the header {name} is missing")
        return value

    def content(self) -> bytes:
        """The body without its content encoding. Call it after the signature is verified."""
        encoding = (self.headers.get("Content-Encoding") or "identity").strip().lower()
        if encoding == "identity":
            return self.body
        if encoding not in ("gzip", "deflate"):
            raise UnsupportedType("this content encoding is not read here; send gzip, deflate or none")
        try:
            return inflate.inflate(self.body, encoding, self.max_content_bytes)
        except inflate.InflatedTooLarge as problem:
            raise TooMuch(str(problem)) from None
        except inflate.BrokenStream as problem:
            raise Unreadable(str(problem)) from None

    def media_type(self) -> str:
        """`application/json` out of `application/json; charset=utf-8`; JSON where nothing is said."""
        return media_type(self.headers.get("Content-Type") or "")

    def json(self) -> tuple[Any, str]:
        """The document and its own text, which is what becomes the event's data."""
        kind = self.media_type()
        if kind not in JSON_TYPES and not kind.endswith("+json"):
            raise UnsupportedType("this content type is not read here; send application/json")
        return self.parse(self.content())

    def parse(self, content: bytes) -> tuple[Any, str]:
        """`content` as strict JSON."""
        try:
            return strict_json.loads(content, self.limits), content.decode()
        except strict_json.NotStrictJson as problem:
            raise Unreadable(str(problem)) from None


JSON_TYPES = frozenset({"application/json", "text/json", "text/plain", "application/octet-stream"})


@lru_cache(maxsize=256)
def media_type(header: str) -> str:
    """Lower-case type of a Content-Type header; refuses a charset that is not UTF-8."""
    kind, _, parameters = header.lower().partition(";")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedType("this charset is not read here; send UTF-8")
    return kind.strip() or "application/json"


class Event(NamedTuple):
    """One thing that happened, before it has an id of ours."""

    key: str
    """Tells this happening from all others of its source; a repeat of the delivery has the same."""
    type: str
    data: str
    """JSON text, as the sender wrote it."""
    occurred_at: datetime
    subject: str | None = None


class HookConfig(BaseModel):
    """What every webhook source has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secrets: Annotated[
        tuple[SecretRef, ...],
        Field(
            min_length=1,
            max_length=8,
            title="Secrets",
            description="Where the service finds the secrets shared with the sender. Any of them verifies, "
            "so that a new one can be added before the old one goes.",
            examples=[[{"env": "GITHUB_WEBHOOK_SECRET"}]],
        ),
    ]
    deadline_seconds: Annotated[
        float | None,
        Field(
            gt=0,
            le=60,
            title="Deadline",
            description="The sender has its answer within this many seconds: 503 where Kafka has not confirmed "
            "by then. Without it, a value just below what the provider itself waits.",
            json_schema_extra={"advanced": True},
        ),
    ] = None
    rate_per_second: Annotated[
        float | None,
        Field(
            gt=0,
            title="Rate",
            description="Verified deliveries per second taken from this source by one process; more are "
            "answered 429. Without it, the service's own setting.",
            json_schema_extra={"advanced": True},
        ),
    ] = None


Receive = Callable[[tuple[bytes, ...], Request, Any], list[Event]]
Prepare = Callable[[Sequence[bytes], Any], tuple[bytes, ...]]


def plain_secrets(secrets: Sequence[bytes], config: HookConfig) -> tuple[bytes, ...]:
    """Secrets used as they are. An empty one would verify anybody's signature."""
    if not secrets or not all(secrets):
        raise Misconfigured("a webhook secret is empty; give the sender and the service one that is not")
    return tuple(secrets)


@dataclass(frozen=True)
class Hook:
    """A webhook provider. `name` is the path segment; `provider` is what sources call it."""

    name: str
    config: type[HookConfig]
    receive: Receive
    deadline_seconds: float = 2.5
    prepare: Prepare = plain_secrets
    """Turns the secrets as configured into the keys that `receive` is given; Misconfigured where they cannot be."""
    attributes: tuple[str, ...] = ()
    """Headers, in lower case, that conditions may read. Never one that carries a credential."""

    @property
    def provider(self) -> str:
        return self.name if "webhook" in self.name else f"{self.name}-webhook"


def text_at(document: Any, *path: str) -> str | None:
    """The string or whole number at `path`, or None wherever the document is shaped otherwise."""
    for step in path:
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isascii() and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    if isinstance(document, str):
        return document or None
    return str(document) if type(document) is int else None


def moment(seconds: Any, otherwise: datetime) -> datetime:
    """Seconds since 1970, or ISO 8601 text, as a datetime with a zone; `otherwise` where it is neither."""
    try:
        if isinstance(seconds, str):
            read = datetime.fromisoformat(seconds)
            return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
        if type(seconds) is int or type(seconds) is float:
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return otherwise
