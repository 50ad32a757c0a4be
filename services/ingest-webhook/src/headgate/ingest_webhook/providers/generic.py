"""Any sender that signs, or at least knows a password: HMAC in most spellings, API key, Basic, bearer."""

from base64 import b64decode
from binascii import Error as NotBase64
from functools import lru_cache
from re import compile as pattern
from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from headgate.common.fingerprints import of_bytes
from headgate.common.hooks import (
    BadSignature,
    Event,
    Hook,
    HookConfig,
    Request,
    Unreadable,
    UnsupportedType,
    text_at,
)
from headgate.ingest_webhook.signatures import (
    after_prefix,
    in_base64,
    in_hex,
    in_window,
    sent_bytes,
    verify,
    verify_equal,
)

FORM = "application/x-www-form-urlencoded"
PLACEHOLDER = pattern(r"(\{[a-z]*\})")
PLAIN_ID = pattern(r"[A-Za-z0-9_-]{1,200}")
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,100}$")]
Path = Annotated[str, Field(pattern=r"^[^.\s]{1,100}(\.[^.\s]{1,100}){0,15}$")]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Hmac(Part):
    """A signature made with a shared secret."""

    header: Annotated[
        HeaderName, Field(title="Header", description="Header with the signature.", examples=["X-Signature"])
    ]
    algorithm: Annotated[
        Literal["sha256", "sha512", "sha1"],
        Field(description="Hash of the HMAC. sha1 only for senders that know nothing better."),
    ] = "sha256"
    encoding: Annotated[
        Literal["hex", "base64"],
        Field(description="How the signature is written: lower-case hex, or base64."),
    ] = "hex"
    prefix: Annotated[
        str,
        Field(max_length=50, description="What stands before the signature.", examples=["sha256=", "v0="]),
    ] = ""
    signed: Annotated[
        str,
        Field(
            max_length=200,
            title="Signed text",
            description="What the signature is made over; {body} is the raw body, {timestamp} and {id} the headers "
            "named for them.",
            examples=["v0:{timestamp}:{body}"],
        ),
    ] = "{body}"
    timestamp_header: Annotated[
        HeaderName | None, Field(description="Header with the signed timestamp, in seconds since 1970.")
    ] = None
    id_header: Annotated[HeaderName | None, Field(description="Header with the signed message id.")] = None
    window_seconds: Annotated[
        int,
        Field(
            ge=1, le=3600, description="How far the timestamp may be from our clock, either way, in seconds."
        ),
    ] = 300

    @model_validator(mode="after")
    def _signs_what_it_says(self) -> Self:
        used = [part for part in parts(self.signed) if PLACEHOLDER.fullmatch(part)]
        for name, header in (("{timestamp}", self.timestamp_header), ("{id}", self.id_header)):
            if (name in used) != (header is not None):
                field = f"{name[1:-1]}_header"
                raise ValueError(f"write {name} in signed and name its header in {field}, or neither")
        if sorted(set(used)) != sorted(used) or "{body}" not in used:
            raise ValueError("signed names {body} once, and {timestamp} and {id} at most once")
        if unknown := set(used) - {"{body}", "{timestamp}", "{id}"}:
            raise ValueError(
                f"signed knows {{body}}, {{timestamp}} and {{id}}, not {', '.join(sorted(unknown))}"
            )
        return self


class ApiKey(Part):
    """The secret itself in a header."""

    header: Annotated[HeaderName, Field(description="Header with the key.", examples=["X-Api-Key"])] = (
        "X-Api-Key"
    )


class Basic(Part):
    """HTTP Basic: a name, and the secret as the password."""

    username: Annotated[
        str, Field(min_length=1, pattern=r"^[^:]*$", description="The name that the sender gives.")
    ]


class Bearer(Part):
    """The secret in `Authorization: Bearer`."""


class Generic(HookConfig):
    """Fires for JSON (or a form) from any sender that can sign it, or can at least present a secret."""

    hmac: Annotated[
        Hmac | None, Field(description="The sender signs each delivery. The best of the four.")
    ] = None
    api_key: Annotated[ApiKey | None, Field(description="The sender presents the secret in a header.")] = None
    basic: Annotated[Basic | None, Field(description="The sender uses HTTP Basic authentication.")] = None
    bearer: Annotated[
        Bearer | None, Field(description="The sender presents the secret as a bearer token.")
    ] = None
    body: Annotated[
        Literal["json", "form"],
        Field(description="What the sender sends. A form becomes a JSON object of strings."),
    ] = "json"
    event_id_header: Annotated[
        HeaderName | None,
        Field(description="Header that is the same on each attempt of one delivery and on no other."),
    ] = None
    event_id_json: Annotated[
        Path | None,
        Field(description="Where in the body such an id stands, in steps with dots.", examples=["event.id"]),
    ] = None
    event_type: Annotated[str, Field(max_length=200, description="Type of event where none is found.")] = (
        "webhook"
    )
    event_type_header: Annotated[HeaderName | None, Field(description="Header with the type of event.")] = (
        None
    )
    event_type_json: Annotated[
        Path | None, Field(description="Where in the body the type of event stands.", examples=["event.type"])
    ] = None

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if sum(way is not None for way in (self.hmac, self.api_key, self.basic, self.bearer)) != 1:
            raise ValueError("write exactly one of hmac, api_key, basic and bearer")
        return self


def receive(secrets: tuple[bytes, ...], request: Request, config: Generic) -> list[Event]:
    authenticate(secrets, request, config)
    document, text = read_form(request) if config.body == "form" else request.json()
    return [
        Event(
            key=found(request, document, config.event_id_header, config.event_id_json)
            or of_bytes(request.body),
            type=found(request, document, config.event_type_header, config.event_type_json)
            or config.event_type,
            occurred_at=request.received_at,
            data=text,
        )
    ]


def authenticate(secrets: tuple[bytes, ...], request: Request, config: Generic) -> None:
    if config.hmac is not None:
        check_signature(secrets, request, config.hmac)
    elif config.api_key is not None:
        verify_equal(sent_bytes(request.require(config.api_key.header)), secrets)
    elif config.bearer is not None:
        verify_equal(sent_bytes(after_scheme(request, "bearer")), secrets)
    elif config.basic is not None:
        name = config.basic.username.encode()
        verify_equal(decoded(after_scheme(request, "basic")), [name + b":" + secret for secret in secrets])


def check_signature(secrets: tuple[bytes, ...], request: Request, how: Hmac) -> None:
    values = {"{body}": request.body}
    if how.timestamp_header is not None:
        time = in_window(request.require(how.timestamp_header), request, how.window_seconds)
        values["{timestamp}"] = time.encode()
    if how.id_header is not None:
        values["{id}"] = signed_id(request.require(how.id_header))
    message = b"".join([values[part] if part in values else part.encode() for part in parts(how.signed)])
    sent = after_prefix(request.require(how.header), how.prefix)
    spell = in_hex if how.encoding == "hex" else in_base64
    verify([sent], secrets, message, algorithm=how.algorithm, spell=spell)


def signed_id(value: str) -> bytes:
    """An id without any separator, or what is signed could be cut in more than one way."""
    if not PLAIN_ID.fullmatch(value):
        raise BadSignature("the message id holds more than letters, digits, _ and -")
    return value.encode()


@lru_cache(maxsize=256)
def parts(signed: str) -> tuple[str, ...]:
    """`v0:{timestamp}:{body}` in its pieces."""
    return tuple(part for part in PLACEHOLDER.split(signed) if part)


def after_scheme(request: Request, scheme: str) -> str:
    name, _, credential = request.require("Authorization").partition(" ")
    if name.lower() != scheme:
        raise BadSignature(f"the Authorization header is not {scheme.title()}")
    return credential


def decoded(credential: str) -> bytes:
    try:
        return b64decode(sent_bytes(credential), validate=True)
    except NotBase64:
        raise BadSignature("the Authorization header is not base64") from None


def found(request: Request, document: object, header: str | None, path: str | None) -> str | None:
    value = request.header(header) if header else None
    return value or (text_at(document, *path.split(".")) if path else None)


def read_form(request: Request) -> tuple[object, str]:
    """The fields of a form; a name that comes several times has the list of its values."""
    if request.media_type() != FORM:
        raise UnsupportedType(f"this source takes forms; send {FORM}")
    try:
        pairs = parse_qsl(
            request.content().decode(),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=1000,
        )
    except ValueError:
        raise Unreadable("the body is not a form in UTF-8") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    document = {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
    text = orjson.dumps(document)
    if len(text) > request.max_content_bytes:  # a control character of one byte is six of JSON
        raise Unreadable(f"the form, written as JSON, is larger than {request.max_content_bytes} bytes")
    return document, text.decode()


HOOK = Hook(name="generic", config=Generic, receive=receive)
