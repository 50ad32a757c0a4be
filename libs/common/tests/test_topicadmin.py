import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headgate.common.errors import Unreachable
from headgate.common.settings import KafkaSettings
from headgate.common.testing.cluster import Stack
from headgate.common.testing.waiting import wait_until
from headgate.common.topicadmin import TopicAdmin

pytestmark = pytest.mark.kafka


def test_what_apply_made_passes_the_check_and_a_second_apply_changes_nothing(stack: Stack):
    admin = TopicAdmin(stack.kafka)
    assert {finding.state for finding in admin.check(stack.topics)} == {"ok"}
    assert {finding.state for finding in admin.apply(stack.topics)} == {"ok"}


def test_a_wrong_cleanup_policy_is_found_and_put_right(stack: Stack):
    topics = stack.topics.__class__(prefix=f"{stack.prefix}x")
    client = AdminClient(stack.kafka.librdkafka())
    changelog = topics.fingerprints_changelog
    admin = TopicAdmin(stack.kafka)
    made = client.create_topics([NewTopic(changelog, 6, 1, config={"cleanup.policy": "delete"})])
    made[changelog].result(15)
    wait_until(lambda: changelog in admin.partitions())
    found = {finding.topic: finding for finding in admin.check(topics)}
    assert found[changelog].state == "wrong"
    assert "cleanup.policy is delete, must be compact" in found[changelog].detail
    assert found[topics.raw].state == "missing"
    admin.apply(topics)
    assert {finding.state for finding in admin.check(topics)} == {"ok"}


def test_a_wrong_partition_count_is_an_error_that_says_the_fix(stack: Stack):
    wider = stack.topics.__class__(prefix=stack.prefix, partitions=7)
    found = {finding.topic: finding for finding in TopicAdmin(stack.kafka).apply(wider)}
    assert found[wider.raw].is_problem
    assert "has 6 partitions, we need 7" in found[wider.raw].detail
    assert "HEADGATE_KAFKA__PREFIX" in found[wider.raw].detail


def test_a_broker_that_is_away_is_named_with_the_setting_to_check():
    with pytest.raises(Unreachable, match="HEADGATE_KAFKA__BOOTSTRAP"):
        TopicAdmin(KafkaSettings(bootstrap="127.0.0.1:1")).partitions()
