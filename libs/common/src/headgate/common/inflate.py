"""One layer of gzip or deflate, counted while it is inflated: a bomb costs no more than the limit."""

import zlib

GZIP = 31  # zlib's number for "gzip wrapper, any window"
ZLIB = 15
RAW_DEFLATE = -15  # what some senders mean by deflate


class InflatedTooLarge(ValueError):
    """The content is larger than the limit."""


class BrokenStream(ValueError):
    """The bytes do not inflate."""


def inflate(data: bytes, encoding: str, limit: int) -> bytes:
    """`data` without its `encoding` (`gzip` or `deflate`)."""
    if encoding == "gzip":
        return _inflate(data, GZIP, limit)
    try:
        return _inflate(data, ZLIB, limit)
    except BrokenStream:
        return _inflate(data, RAW_DEFLATE, limit)


def _inflate(data: bytes, window: int, limit: int) -> bytes:
    stream = zlib.decompressobj(window)
    try:
        content = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise BrokenStream(f"the body does not inflate: {error}") from None
    if len(content) > limit:
        raise InflatedTooLarge(f"the inflated body is larger than {limit} bytes")
    if not stream.eof:
        raise BrokenStream("the body does not inflate: it ends too early")
    if stream.unused_data:
        raise BrokenStream("the body does not inflate: bytes follow its end")
    return content
