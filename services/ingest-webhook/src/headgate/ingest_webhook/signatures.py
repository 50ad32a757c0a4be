"""Signatures over raw bytes: the few forms that providers use.

Everything sent is compared as bytes and in constant time. Hex is lower case and base64 has its padding: a
signature has one spelling, any other is refused. Every key is tried, so that secrets can be rotated.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from re import ASCII
from re import compile as pattern

from headgate.common.hooks import BadSignature, Request, Stale

SECONDS = pattern(r"(?:0|[1-9][0-9]{0,11})", ASCII)
UNSIGNED = "the signature does not match; check the secret on both sides"

Spell = Callable[[bytes], bytes]


def in_hex(digest: bytes) -> bytes:
    return digest.hex().encode()


def in_base64(digest: bytes) -> bytes:
    return b64encode(digest)


def sent_bytes(text: str) -> bytes:
    """A header value as it was on the wire, whatever it held."""
    return text.encode("utf-8", "surrogateescape")


def verify(
    sent: Iterable[str],
    keys: Sequence[bytes],
    message: bytes,
    *,
    algorithm: str = "sha256",
    spell: Spell = in_hex,
) -> None:
    """One of the signatures sent is that of `message` under one of the keys, or BadSignature."""
    candidates = [sent_bytes(one) for one in sent]
    for key in keys:
        right = spell(hmac.digest(key, message, algorithm))
        for candidate in candidates:
            if hmac.compare_digest(right, candidate):
                return
    raise BadSignature(UNSIGNED)


def verify_equal(sent: bytes, keys: Sequence[bytes]) -> None:
    """`sent` is one of the secrets themselves, or BadSignature."""
    found = False
    for key in keys:
        found |= hmac.compare_digest(key, sent)
    if not found:
        raise BadSignature("the credential is not the right one; check the secret on both sides")


def after_prefix(value: str, prefix: str) -> str:
    """`value` without its prefix, or BadSignature."""
    if not value.startswith(prefix):
        raise BadSignature("the signature does not have the form this provider uses")
    return value[len(prefix) :]


def in_window(sent: str, request: Request, window_seconds: int) -> str:
    """The timestamp as it was sent, if it is seconds since 1970 and close enough to now."""
    if not SECONDS.fullmatch(sent):
        raise BadSignature("the timestamp is not a number of seconds since 1970")
    if abs(request.received_at.timestamp() - int(sent)) > window_seconds:
        raise Stale(
            f"the signature is more than {window_seconds} seconds away from our clock; check both clocks"
        )
    return sent
