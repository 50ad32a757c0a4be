"""The headers that any CloudEvents or tracing tool reads."""

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headgate.common.headers import child_traceparent, new_traceparent, rfc3339

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@given(
    st.lists(st.integers(-(2**54), 2**57) | st.integers(1_800_000_000_000_000, 1_800_000_003_000_000)),
)
def test_a_moment_reads_back_whatever_was_written_before_it(moments: list[int]) -> None:
    for micros in moments:
        written = rfc3339(micros)
        assert written.endswith("Z")
        assert (datetime.fromisoformat(written) - EPOCH) // timedelta(microseconds=1) == micros


def test_a_trace_has_the_form_of_the_standard_and_its_next_step_the_same_id() -> None:
    parent = new_traceparent()
    child = child_traceparent(parent)
    assert TRACEPARENT.fullmatch(parent)
    assert TRACEPARENT.fullmatch(child)
    assert child[:36] == parent[:36]
    assert child[36:52] != parent[36:52]
    assert new_traceparent()[:36] != parent[:36]


@given(
    st.text(min_size=52, max_size=52).map("00-".__add__)
    | st.sampled_from(
        ["", "00-" + "a" * 31 + "\n-" + "b" * 16 + "-01", "00-" + "²" * 32 + "-" + "b" * 16 + "-01"]
    )
)
def test_what_a_stranger_calls_a_trace_and_is_none_is_not_passed_on(parent: str) -> None:
    """It becomes a header of the request to the engine, which refuses to be sent a line break."""
    assert TRACEPARENT.fullmatch(child_traceparent(parent))
