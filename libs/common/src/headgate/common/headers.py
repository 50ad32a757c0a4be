"""The headers on our records: CloudEvents attributes (binary mode) and W3C trace context."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

Headers = list[tuple[str, bytes]]

AVRO = b"application/avro"
_CONTENT_TYPE = ("content-type", AVRO)
_VERSION = ("ce_specversion", b"1.0")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MOMENT = -62_135_596_800_000_000
LAST_MOMENT = 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds since 1970."""


_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_second = (-1, "")
"""The last whole second that was written, and how."""


def rfc3339(micros: int) -> str:
    """Microseconds since 1970 as CloudEvents want them."""
    global _second
    seconds, fraction = divmod(micros, 1_000_000)
    known, text = _second
    if seconds != known:
        text = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:-6]
        _second = seconds, text
    return f"{text}.{fraction:06d}Z" if fraction else f"{text}Z"


def is_moment(micros: int) -> bool:
    """Whether it lies in the years 1 to 9999: others cannot be written."""
    return FIRST_MOMENT <= micros <= LAST_MOMENT


def cloud_event(
    *,
    event_id: str,
    source: str,
    type: str,
    micros: int,
    subject: str | None = None,
    trace: str | None = None,
) -> Headers:
    """What any CloudEvents tool reads of a record of ours."""
    headers = [
        _CONTENT_TYPE,
        _VERSION,
        ("ce_id", event_id.encode()),
        ("ce_source", f"/headgate/{source}".encode()),
        ("ce_type", type.encode()),
        ("ce_time", rfc3339(micros).encode()),
        ("traceparent", (trace or new_traceparent()).encode()),
    ]
    if subject:
        headers.append(("ce_subject", subject.encode()))
    return headers


def new_traceparent() -> str:
    """The start of a trace, for what arrives without one. Trace ids are no secrets; asking the kernel for each
    costs more than all the rest of a header."""
    ids = f"{random.getrandbits(192):048x}"
    return f"00-{ids[:32]}-{ids[32:]}-01"


def child_traceparent(parent: str | None) -> str:
    """The next step of a trace: the same trace id, a span id of its own. A stranger's that is none begins anew:
    it becomes a header of requests, and no engine can be sent just anything there."""
    if parent and _TRACEPARENT.fullmatch(parent):
        return f"{parent[:36]}{random.getrandbits(64):016x}{parent[52:]}"
    return new_traceparent()


def text(headers: Iterable[tuple[str, bytes | str | None]] | None, name: str) -> str | None:
    """The last header of this name as text; None when absent or not UTF-8. Names compare without case."""
    found = None
    for key, value in headers or ():
        if key.lower() == name and value is not None:
            try:
                found = value if isinstance(value, str) else value.decode()
            except UnicodeDecodeError:
                found = None
    return found
