"""Settings that cannot be used are said by the names that people set."""

import pytest

from headgate.common.errors import Misconfigured
from headgate.common.settings import ServiceSettings


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("HEADGATE_KAFKA__PARTITIONS", "many", "should be a valid integer"),
        ("HEADGATE_KAFKA__SECURITY_PROTOCOL", "ssl", "'PLAINTEXT', 'SSL'"),
        ("HEADGATE_HEALTH_PORT", "70000", "less than or equal to 65535"),
    ],
)
def test_a_wrong_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(Misconfigured, match=f"^{variable} cannot be used: .*{why}") as caught:
        ServiceSettings()
    assert "\n" not in str(caught.value)


def test_a_list_that_is_no_json_is_said_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_KAFKA", "nonsense")
    with pytest.raises(Misconfigured, match=r'"kafka".*JSON'):
        ServiceSettings()


def test_what_is_given_in_code_beats_the_environment_field_by_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_KAFKA__PREFIX", "theirs")
    monkeypatch.setenv("HEADGATE_KAFKA__SASL_USERNAME", "user")
    kafka = ServiceSettings(kafka={"prefix": "ours"}).kafka
    assert (kafka.prefix, kafka.sasl_username) == ("ours", "user")
