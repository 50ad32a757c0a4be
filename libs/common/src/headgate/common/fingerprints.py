"""Who an event is, where it belongs, and what its run is called. Pure arithmetic; the engine's
"exactly once" hangs on these four functions giving the same answer for ever.
"""

from __future__ import annotations

import hashlib
import re
import uuid
import zlib
from collections.abc import Sequence

from headgate.common.model.kinds import EVENTS

_NAMESPACE = uuid.UUID("6f8b1f6e-7a44-5f0b-9b1c-2d1b6c1e5a10")
_PLAIN = re.compile(r"[\x21-\x7e]{1,200}")


def fingerprint(provider: str, scope: str, key: str) -> str:
    """The identity of what happened. `scope` is the integration, or the source where there is none.

    Webhook and poller of one provider are one family, so that both give the same fingerprint for the
    same key. A key that is long or not printable is hashed.
    """
    family = provider.removesuffix("-webhook")
    if not _PLAIN.fullmatch(key):
        key = "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{family}/{scope}:{key}"


def joined(first: Sequence[str], last: str) -> str:
    """Several words as one key. None but the last keeps its colons: `a:b` and `c` are not `a` and `b:c`."""
    return ":".join([*(_without_colons(word) for word in first), last])


def of_cloud_event(source: str, id: str) -> str:
    """Both are their producer's own words. The source stays as it is, so the id keeps no colon."""
    return fingerprint(EVENTS, source, _without_colons(id))


def of_plain_json(value: bytes) -> str:
    """JSON that says nothing about itself: its content is its identity."""
    return f"{EVENTS}/json:{hashlib.sha256(value).hexdigest()}"


def of_bytes(value: bytes) -> str:
    """The key of something that has no id of its own: its content."""
    return "sha256:" + hashlib.sha256(value).hexdigest()


def partition_of(fingerprint: bytes, partitions: int) -> int:
    """Where librdkafka's default partitioner puts this key, and where the processor expects it."""
    return zlib.crc32(fingerprint) % partitions


def uid(prefix: str, kind: str, name: str) -> str:
    """A trigger's or source's uid. Derived, so that re-creating it after a disaster keeps its run ids."""
    return str(uuid.uuid5(_NAMESPACE, f"{prefix}/{kind}/{name}"))


def run_id(trigger_uid: str, fingerprint: str) -> str:
    """The run of this trigger for this fingerprint: the engine's idempotency key."""
    return str(uuid.uuid5(uuid.UUID(trigger_uid), fingerprint))


def foreign_event_id(topic: str, partition: int, offset: int) -> str:
    """The id of an event whose producer gave it none that is ours: derived from where it first stood."""
    return str(uuid.uuid5(_NAMESPACE, f"event/{topic}/{partition}/{offset}"))


def _without_colons(word: str) -> str:
    return word.replace("%", "%25").replace(":", "%3A")
