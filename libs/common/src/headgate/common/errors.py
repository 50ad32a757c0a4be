"""Every error of ours, named by what the runtime does with it.

HeadgateError
├── Unreachable            wait: the broker or the registry does not answer; nothing is lost
├── Misconfigured          stop: a person must change something; the message says what
│   └── Invalid            a document a user wrote cannot be accepted
├── Poison                 dead-letter: these bytes or this event can never be handled as they are
│   ├── Undecodable        ... because nobody can read the bytes
│   └── TooLarge           ... because they pass a limit
└── SourceError            what a provider tells the source runtime
    ├── Transient          retry with a growing pause
    ├── RateLimited        retry when the provider says
    ├── AuthRejected       pause the source until the credential is replaced
    ├── CursorExpired      start over from a new baseline
    └── BadItem            dead-letter this item, go on with the page
"""

from __future__ import annotations

from typing import Any


class HeadgateError(Exception):
    """Base of all. The text is for people: what happened, to what, what to do next."""


class Unreachable(HeadgateError):
    """A server we depend on does not answer. Callers wait and try again; they never drop."""


class Misconfigured(HeadgateError):
    """A setting or a topic is wrong. The process says so and stops."""


class Invalid(Misconfigured):
    """A trigger or source as written cannot be accepted. Names the field and the fix."""


class Poison(HeadgateError):
    """This record can never be handled as it is; it belongs on the dead-letter topic."""

    code = "poison"


class Undecodable(Poison):
    """Nobody can read these bytes."""

    code = "undecodable"


class TooLarge(Poison):
    """The record passes a size, depth or item limit."""

    code = "too-large"


class SourceError(HeadgateError):
    """A provider could not give its next page."""


class Transient(SourceError):
    """It may work in a moment: 5xx, timeouts, connection trouble."""


class RateLimited(SourceError):
    """The provider asked us to slow down."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class AuthRejected(SourceError):
    """The credential is refused. Trying again does not help."""


class CursorExpired(SourceError):
    """The provider has forgotten our position."""


class BadItem(SourceError):
    """One item of a page cannot become an event; the others can."""

    def __init__(self, message: str, item: Any) -> None:
        super().__init__(message)
        self.item = item
