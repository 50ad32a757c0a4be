"""Actions: what a trigger starts, one model for each engine. The engines themselves live in the runner."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from headgate.common.model.durations import Duration
from headgate.common.secrets import SecretRef
from headgate.common.templates import Templates

_templates = Templates()
_NO_URL = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset(
    {"idempotency-key", "traceparent", "host", "content-length", "transfer-encoding", "connection"}
)
"""Headers that carry a guarantee, or frame the request."""


def _fillable(node: Any, at: str = "") -> Any:
    """Every string in it is plain text or a template that can be filled in."""
    if isinstance(node, str):
        problem = _templates.problem(node)
        if problem:
            raise ValueError(f"{at}: {problem}" if at else problem)
    elif isinstance(node, dict):
        for name, one in node.items():
            _fillable(one, f"{at}.{name}" if at else name)
    elif isinstance(node, list):
        for index, one in enumerate(node):
            _fillable(one, f"{at}[{index}]")
    return node


def _checked(node: Any) -> Any:
    return _fillable(node)


Fillable = AfterValidator(_checked)


class HttpAction(BaseModel):
    """Starts a run with one HTTP request. The run id travels as `Idempotency-Key`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[
        str,
        Field(description="Where to send it.", examples=["https://engine.internal/runs"], max_length=2048),
    ]
    method: Annotated[Literal["POST", "PUT"], Field(description="HTTP method.")] = "POST"
    headers: Annotated[
        dict[str, str | SecretRef],
        Fillable,
        Field(description="Headers to add: text, a template, or a secret by reference ({env: NAME})."),
    ] = {}
    body: Annotated[
        Any,
        Fillable,
        Field(
            description="JSON body; strings in it are templates over `event` and `run`. Default: the event itself.",
            examples=[{"incident": "{{ event.data.id }}"}],
        ),
    ] = None
    timeout: Annotated[Duration, Field(description="How long to wait for the engine's answer.")] = timedelta(
        seconds=10
    )

    @field_validator("url")
    @classmethod
    def _http_only(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("the URL starts with http:// or https://")
        authority = url.split("/", 3)[2]
        if "@" in authority or not authority:
            raise ValueError(
                "the URL needs a host, and no user or password in it: use headers with {env: NAME}"
            )
        if "{{" in url:
            raise ValueError("the URL takes no templates: put what differs from event to event into the body")
        found = _NO_URL.search(url)
        if found:
            raise ValueError(f"the URL cannot hold {found[0]!r}: write it as %{ord(found[0]):02X}")
        try:
            if not urlsplit(url).hostname:
                raise ValueError("there is no host")
            _ = urlsplit(url).port
        except ValueError as problem:
            raise ValueError(f"the URL cannot be used: {problem}; write https://host:port/path") from None
        return url

    @field_validator("headers")
    @classmethod
    def _names_of_headers(cls, headers: dict[str, str | SecretRef]) -> dict[str, str | SecretRef]:
        for name in headers:
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no header name: write letters, digits and dashes")
            if name.lower() in _OURS:
                raise ValueError(f"{name} is set by Headgate and cannot be given: remove it")
        return headers


class LocalAction(BaseModel):
    """Writes the run to a file and a topic on this machine: an engine for demos and tests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    note: Annotated[
        str,
        Fillable,
        Field(description="A template; the text is kept with the run.", examples=["{{ event.type }}"]),
    ] = ""


class Action(BaseModel):
    """Exactly one engine, by its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    http: Annotated[HttpAction | None, Field(description="Start a run with an HTTP request.")] = None
    local: Annotated[LocalAction | None, Field(description="Write the run to a local file and topic.")] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Action:
        named = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(named) != 1:
            engines = ", ".join(type(self).model_fields)
            raise ValueError(f"name exactly one engine (one of: {engines})")
        return self

    @property
    def engine(self) -> str:
        """The name of the engine that starts it."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def config(self) -> HttpAction | LocalAction:
        config: HttpAction | LocalAction = getattr(self, self.engine)
        return config
