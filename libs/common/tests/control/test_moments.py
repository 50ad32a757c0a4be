from datetime import UTC, datetime

import pytest

from headgate.common.control.events import moment


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (1_700_000_000_123_456, datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC)),
        (2**63 - 1, datetime.max.replace(tzinfo=UTC)),
        (-(2**63), datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_any_number_of_a_stranger_is_shown_as_a_time(micros: int, shown: datetime):
    assert moment(micros) == shown
