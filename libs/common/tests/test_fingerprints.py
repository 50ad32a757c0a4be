import zlib

from hypothesis import given
from hypothesis import strategies as st

from headgate.common import fingerprints


def test_webhook_and_poller_of_one_integration_agree():
    assert fingerprints.fingerprint(
        "pagerduty-webhook", "pd-main", "P1:triggered"
    ) == fingerprints.fingerprint("pagerduty", "pd-main", "P1:triggered")


def test_short_printable_keys_stay_readable():
    assert fingerprints.fingerprint("github-webhook", "repo", "72d3162e") == "github/repo:72d3162e"


@given(st.text())
def test_every_key_gives_a_bounded_printable_fingerprint(key: str):
    found = fingerprints.fingerprint("json", "s", key)
    assert found.isascii()
    assert found.isprintable()
    assert len(found) <= 220


@given(st.text(max_size=300), st.text(max_size=300))
def test_different_keys_give_different_fingerprints(one: str, other: str):
    same = fingerprints.fingerprint("json", "s", one) == fingerprints.fingerprint("json", "s", other)
    assert same == (one == other)


_WORDS = st.text("ab:%/3A2", min_size=1, max_size=12)


@given(st.tuples(_WORDS, _WORDS), st.tuples(_WORDS, _WORDS))
def test_two_cloud_events_are_one_only_with_the_same_source_and_id(
    one: tuple[str, str], other: tuple[str, str]
):
    same = fingerprints.of_cloud_event(*one) == fingerprints.of_cloud_event(*other)
    assert same == (one == other)


@given(st.lists(_WORDS, min_size=1, max_size=3), st.data())
def test_keys_of_as_many_words_are_one_only_with_the_same_words(one: list[str], data: st.DataObject):
    other = data.draw(st.lists(_WORDS, min_size=len(one), max_size=len(one)))
    same = fingerprints.joined(one[:-1], one[-1]) == fingerprints.joined(other[:-1], other[-1])
    assert same == (one == other)


def test_a_colon_in_a_cloud_events_source_or_id_moves_nothing_between_them():
    assert fingerprints.of_cloud_event("urn:shop", "7:x") != fingerprints.of_cloud_event("urn:shop:7", "x")
    assert fingerprints.of_cloud_event("/shop", "a1") == "events//shop:a1"


def test_run_ids_never_change():
    """Written down once: an engine may have remembered these for months."""
    uid = fingerprints.uid("headgate", "Trigger", "page-triage")
    assert uid == "5f3140c9-502e-5fb6-a87d-4b130cac2332"
    assert fingerprints.run_id(uid, "github/repo:72d3162e") == "038259bc-d605-5287-aa10-b0212f64fef5"


def test_partition_is_crc32_as_librdkafka_has_it():
    assert fingerprints.partition_of(b"123456789", 7) == 0xCBF43926 % 7 == zlib.crc32(b"123456789") % 7
