"""Who an event is and what its run must be called: computed here a second time, from the words of the design.

    fingerprint = <provider family>/<integration or source>:<the provider's own key>
    trigger uid = UUIDv5(namespace, <topic prefix>/trigger/<name>)
    run id      = UUIDv5(trigger uid, fingerprint)

Shares no code with the pipeline, on purpose: a mistake there must not repeat itself here.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

HEADGATE = UUID("6f8b1f6e-7a44-5f0b-9b1c-2d1b6c1e5a10")


def uuid5(namespace: UUID, name: str) -> UUID:
    """RFC 9562 section 5.5, written out: the first 16 bytes of SHA-1 over namespace and name, version 5."""
    digest = bytearray(hashlib.sha1(namespace.bytes + name.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def trigger_uid(prefix: str, name: str) -> UUID:
    return uuid5(HEADGATE, f"{prefix}/trigger/{name}")


def run_id(prefix: str, trigger: str, fingerprint: str) -> str:
    """The id the engine must see for this trigger and this event."""
    return str(uuid5(trigger_uid(prefix, trigger), fingerprint))
