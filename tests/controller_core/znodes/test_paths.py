"""Paths of znodes, and names in them."""

import pytest

from controller_core import znodes
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import TopicPartition
from controller_core.znodes import paths


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("1", "1"),
        ("01", "1"),
        ("0", "0"),
        ("00", "0"),
        ("2147483647", "2147483647"),
        ("2147483648", None),
        ("a", None),
        ("", None),
        ("٣", None),
    ],
)
def test_the_registration_that_kafka_reads(name, read):
    path = f"/brokers/ids/{name}"
    if read is None:
        with pytest.raises(MalformedZnodeError, match="expected a broker id"):
            znodes.registration_read(path)
    else:
        assert znodes.registration_read(path) == f"/brokers/ids/{read}"
    if name == read:
        assert znodes.broker_id_of(path) == int(name)
    else:
        with pytest.raises(MalformedZnodeError, match="expected a broker id"):
            znodes.broker_id_of(path)


@pytest.mark.parametrize(("name", "path_name"), [("alice", "alice"), ("a b/ü~", "a%20b%2F%C3%BC%7E")])
def test_names_in_paths_are_sanitized(name, path_name):
    assert znodes.sanitized(name) == path_name
    assert znodes.desanitized(path_name) == name


def test_paths():
    partition = TopicPartition("t", 3)
    assert znodes.state_partition_of(znodes.state_path(partition)) == partition
    assert znodes.partition_path(partition) == "/brokers/topics/t/partitions/3"
    assert znodes.partitions_path("t") == "/brokers/topics/t/partitions"
    assert znodes.isr_change_path("0000000001") == "/isr_change_notification/isr_change_0000000001"
    assert znodes.log_dir_event_path("0000000001") == "/log_dir_event_notification/log_dir_event_0000000001"
    assert znodes.config_path("topics", "t") == "/config/topics/t"
    assert znodes.delete_topic_path("t") == "/admin/delete_topics/t"
    assert znodes.broker_id_of(znodes.broker_path(3)) == 3
    assert znodes.topic_path("t") == "/brokers/topics/t"
    assert znodes.sequence_number("/x/isr_change_0000000007", paths.ISR_CHANGE_PREFIX) == "0000000007"
    for attempt in (
        lambda: znodes.state_partition_of("/brokers/topics/t"),
        lambda: znodes.sequence_number("/x/other_1", paths.ISR_CHANGE_PREFIX),
        lambda: znodes.sequence_number("/x/isr_change_", paths.ISR_CHANGE_PREFIX),
    ):
        with pytest.raises(MalformedZnodeError):
            attempt()
