import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common import avro
from headgate.common.errors import TooLarge, Undecodable

EVENT = {
    "id": "e",
    "fingerprint": "f",
    "source": "s",
    "provider": "p",
    "type": "t",
    "subject": None,
    "occurred_at": 1,
    "received_at": 2,
    "data": "{}",
    "attributes": {"a": "b"},
}
RAW = avro.schema("RawEvent")
VALUE = avro.encode(RAW, 7, EVENT)


def test_a_record_comes_back_as_it_went():
    assert avro.schema_id_of(VALUE) == 7
    assert avro.decode(RAW, VALUE) == EVENT


def test_bytes_left_over_are_poison():
    with pytest.raises(Undecodable, match="1 bytes are left over"):
        avro.decode(RAW, VALUE + b"\x00")


@given(st.integers(min_value=0, max_value=len(VALUE) - 1))
def test_a_cut_record_is_poison(length: int):
    read = avro.schema_id_of if length < avro.HEADER_BYTES else lambda value: avro.decode(RAW, value)
    with pytest.raises(Undecodable):
        read(VALUE[:length])


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_poison(body: bytes):
    with contextlib.suppress(Undecodable):
        avro.decode(RAW, avro.frame(7) + body)


def test_another_magic_byte_is_poison():
    with pytest.raises(Undecodable, match="0x01"):
        avro.schema_id_of(b"\x01" + VALUE[1:])


def test_a_record_over_the_limit_is_refused_before_it_is_decoded():
    with pytest.raises(TooLarge):
        avro.schema_id_of(b"\x00" * (avro.MAX_FRAMED_BYTES + 1))


@pytest.mark.parametrize(
    "items",
    [
        '"null"',
        '{"type":"null"}',
        '{"type":"record","name":"E","fields":[]}',
        '{"type":"fixed","name":"F","size":0}',
    ],
)
def test_a_schema_whose_items_take_no_bytes_is_refused(items: str):
    with pytest.raises(Undecodable, match="take no bytes"):
        avro.parse(
            f'{{"type":"record","name":"R","fields":[{{"name":"x","type":{{"type":"array","items":{items}}}}}]}}'
        )


def test_a_type_that_takes_no_bytes_is_found_behind_its_name():
    empty = '{"name":"e","type":{"type":"record","name":"E","fields":[]}}'
    with pytest.raises(Undecodable, match=r"takes no bytes \(n\.E\)"):
        avro.parse(
            f'{{"type":"record","name":"R","namespace":"n","fields":[{empty},'
            '{"name":"x","type":{"type":"array","items":"E"}}]}'
        )


@pytest.mark.parametrize(
    "inner", ['["null","R"]', '{"type":"array","items":"n.R"}', '{"type":"map","values":["null","R"]}']
)
def test_a_type_with_itself_in_it_is_refused(inner: str):
    """A value of it goes as deep as its bytes say; the decoder's stack ends the process before that."""
    with pytest.raises(Undecodable, match=r"itself in it \(n\.R\)"):
        avro.parse(
            f'{{"type":"record","name":"R","namespace":"n","fields":[{{"name":"next","type":{inner}}}]}}'
        )


def test_a_type_may_be_used_twice():
    kind = '{"type":"record","name":"K","fields":[{"name":"b","type":"boolean"}]}'
    avro.parse(
        f'{{"type":"record","name":"R","fields":[{{"name":"a","type":{kind}}},{{"name":"b","type":"K"}}]}}'
    )


def test_a_giant_item_count_in_few_bytes_is_poison_not_memory():
    schema = avro.parse(
        '{"type":"record","name":"R","fields":[{"name":"x","type":{"type":"array","items":"string"}}]}'
    )
    twenty_million = b"\x80\xb4\x89\x13"
    with pytest.raises(Undecodable):
        avro.decode(schema, struct.pack(">bI", 0, 1) + twenty_million)
