from hypothesis import given
from hypothesis import strategies as st

from headgate.common import fingerprints
from headgate.common.rekeying import Original, copy_headers, foreign_event_id, original_of

NAMES = st.text("abc-_", min_size=1)
ORIGINALS = st.builds(
    Original,
    topic=st.text("abc./-", min_size=1),
    partition=st.integers(0, 999),
    offset=st.integers(0, 10**18 - 1),
    key=st.none() | st.binary(),
    headers=st.lists(st.tuples(NAMES, st.binary())),
)


def copied(original: Original) -> Original:
    return Original("rekeyed", 1, 2, b"fingerprint", copy_headers(original))


@given(ORIGINALS)
def test_a_copy_tells_all_of_what_it_was_made_from(original: Original) -> None:
    assert original_of(copied(original), original.topic) == original


@given(ORIGINALS)
def test_a_stranger_names_no_topic_that_copies_are_not_made_from(forged: Original) -> None:
    copy = copied(forged)
    assert original_of(copy, forged.topic + "x") == copy


@given(ORIGINALS)
def test_a_copy_has_the_event_id_of_what_it_was_made_from(original: Original) -> None:
    copied = foreign_event_id(copy_headers(original), "x.events.rekeyed", 1, 2)
    assert copied == fingerprints.foreign_event_id(original.topic, original.partition, original.offset)


def test_a_record_that_is_no_copy_is_its_own_original() -> None:
    own = Original("raw", 3, 4, None, [("headgate-origin", b"not a place"), ("a", b"b")])
    assert original_of(own, "raw") == own
