import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.inflate import BrokenStream, InflatedTooLarge, inflate


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


@given(st.binary())
def test_each_spelling_of_both_encodings_is_read(data: bytes) -> None:
    assert inflate(gzip.compress(data), "gzip", 1000) == data
    assert inflate(zlib.compress(data), "deflate", 1000) == data
    assert inflate(raw_deflate(data), "deflate", 1000) == data


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_costs_no_more_than_the_limit(encoding: str) -> None:
    bomb = (
        gzip.compress(bytes(200_000_000), 9) if encoding == "gzip" else zlib.compress(bytes(200_000_000), 9)
    )
    tracemalloc.start()
    try:
        with pytest.raises(InflatedTooLarge):
            inflate(bomb, encoding, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [999, 1000])
def test_the_limit_itself_is_allowed(size: int) -> None:
    assert len(inflate(gzip.compress(bytes(size)), "gzip", 1000)) == size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        gzip.compress(b"cut")[:-1],
        gzip.compress(b"two") + gzip.compress(b"members"),
        zlib.compress(b"zlib"),
    ],
)
def test_what_does_not_inflate_whole_is_broken(data: bytes) -> None:
    with pytest.raises(BrokenStream):
        inflate(data, "gzip", 1000)
