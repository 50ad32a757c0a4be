"""Sources: what a provider writes, and the one runtime around all of them.

A provider module imports from here and from nowhere deeper.
"""

from headgate.common.errors import AuthRejected, BadItem, CursorExpired, Misconfigured, RateLimited, Transient
from headgate.common.fingerprints import joined
from headgate.common.sources.answers import check, not_after, retry_after, until
from headgate.common.sources.position import MAX_REMEMBERED
from headgate.common.sources.provider import Auth, Cursor, Event, Page, Source, SourceConfig, each
from headgate.common.sources.times import moment
from headgate.common.sources.transports import origin

__all__ = [
    "MAX_REMEMBERED",
    "Auth",
    "AuthRejected",
    "BadItem",
    "Cursor",
    "CursorExpired",
    "Event",
    "Misconfigured",
    "Page",
    "RateLimited",
    "Source",
    "SourceConfig",
    "Transient",
    "check",
    "each",
    "joined",
    "moment",
    "not_after",
    "origin",
    "retry_after",
    "until",
]
