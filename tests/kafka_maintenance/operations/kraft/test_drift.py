"""What the metadata log says after its last record, what is lost since a snapshot, and where tree and log differ."""

import json

import pytest

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft import drift
from kafka_maintenance.operations.kraft.drift import (
    LogReader,
    disagreements,
    lost,
    read_log,
    registrations_of,
    replicas_of,
)
from kafka_maintenance.operations.kraft.rehearsal.records import all_records
from kafka_maintenance.servers.errors import LocalStackError
from tests.kafka_maintenance.operations.kraft.trees import GONE, TOPIC, topic, tree


def records(*of):
    """Of (type without `_RECORD`, fields), as `DumpLogSegments` prints them."""
    lines = [
        f"| offset: 1 payload: {json.dumps({'type': f'{kind}_RECORD', 'version': 0, 'data': data})}\n"
        for kind, data in of
    ]
    return tuple(all_records(lines))


def test_the_last_registration_of_a_broker_counts():
    found = records(
        ("REGISTER_BROKER", {"brokerId": 1, "isMigratingZkBroker": True}),
        ("REGISTER_BROKER", {"brokerId": 2, "isMigratingZkBroker": True}),
        ("REGISTER_BROKER", {"brokerId": 3, "isMigratingZkBroker": True}),
        ("REGISTER_BROKER", {"brokerId": 1}),
        ("UNREGISTER_BROKER", {"brokerId": 3}),
    )
    assert registrations_of(found) == {1: False, 2: True}


CREATED = (
    ("TOPIC", {"name": "orders", "topicId": "A"}),
    ("PARTITION", {"topicId": "A", "partitionId": 0, "replicas": [1, 2]}),
)


MOVED = ("PARTITION_CHANGE", {"topicId": "A", "partitionId": 0, "replicas": [2, 3]})


@pytest.mark.parametrize(
    ("more", "replicas"),
    [
        pytest.param((), {("orders", 0): (1, 2)}, id="as it was made"),
        pytest.param((MOVED,), {("orders", 0): (2, 3)}, id="moved"),
        pytest.param((("PARTITION_CHANGE", {"topicId": "A", "partitionId": 0, "replicas": None, "leader": 2}),), {("orders", 0): (1, 2)}, id="another leader"),
        pytest.param((("REMOVE_TOPIC", {"topicId": "A"}),), {}, id="deleted"),
        pytest.param((("REMOVE_TOPIC", {"topicId": "A"}), ("TOPIC", {"name": "orders", "topicId": "B"}),
                      ("PARTITION", {"topicId": "B", "partitionId": 0, "replicas": [3]})), {("orders", 0): (3,)}, id="made anew"),
        pytest.param((("BEGIN_TRANSACTION", {}), ("REMOVE_TOPIC", {"topicId": "A"}), ("ABORT_TRANSACTION", {}), MOVED), {("orders", 0): (2, 3)}, id="aborted, then moved"),
        pytest.param((("BEGIN_TRANSACTION", {}), ("REMOVE_TOPIC", {"topicId": "A"}), ("END_TRANSACTION", {})), {}, id="committed"),
        pytest.param((("BEGIN_TRANSACTION", {}), ("REMOVE_TOPIC", {"topicId": "A"})), {("orders", 0): (1, 2)}, id="not ended"),
    ],
)  # fmt: skip
def test_the_log_is_read_to_its_last_record(more, replicas):
    assert replicas_of(records(*CREATED, *more)) == replicas


@pytest.mark.parametrize(
    ("now", "says"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({TOPIC: topic(2, 3)}, [], id="moved"),
        pytest.param({TOPIC: topic(1, 2, 3, adding_replicas={"0": [3]})}, [], id="one more"),
        pytest.param({TOPIC: topic(1, 2, removing_replicas={"0": [2]})}, ["orders-0: replicas [1, 2] in the snapshot, [1] now"], id="one less is asked for"),
        pytest.param({TOPIC: topic(1)}, ["orders-0: replicas [1, 2] in the snapshot, [1] now"], id="one less"),
        pytest.param({TOPIC: topic(partitions={})}, ["orders-0: the partition is gone since the snapshot"], id="no partition"),
        pytest.param({TOPIC: GONE}, ["orders: the topic is gone since the snapshot"], id="no topic"),
        pytest.param({TOPIC: b"garbage"}, ["orders: its znode cannot be read any more"], id="garbage"),
    ],
)  # fmt: skip
def test_what_is_lost_since_a_snapshot(now, says):
    changes = {path: value for path, value in now.items() if value is not GONE}
    later = tree(changes) if GONE not in now.values() else tree({TOPIC: GONE, f"{TOPIC}/partitions/0/state": GONE})
    assert list(lost(tree(), later)) == says


def test_where_tree_and_log_differ():
    assert list(disagreements(tree(), {("orders", 0): (1, 2)})) == []
    assert list(disagreements(tree(), {("orders", 0): (1, 3), ("new", 0): (1,)})) == [
        "new-0: only the metadata log has it; where it is new, copy the log again",
        "orders-0: replicas [1, 2] in ZooKeeper, [1, 3] in the metadata log",
    ]
    assert list(disagreements(tree(), {})) == ["orders-0: only ZooKeeper has it; where it is new, copy the log again"]


def test_a_folder_without_segments_is_bad_input(tmp_path):
    (tmp_path / "server.log").write_text("of another kind")
    with pytest.raises(BadInputError, match=r"expected the segments of a metadata log \(0{20}\.log, …\), found none"):
        read_log(tmp_path, "3.9")


def test_a_log_is_read_again_where_a_segment_has_changed(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(drift, "read_log", lambda folder, version: read.append((folder, version)) or len(read))
    segment = tmp_path / f"{'0' * 20}.log"
    segment.write_bytes(b"records")
    says = LogReader(tmp_path, "3.9")
    assert [says(), says()] == [1, 1]
    segment.write_bytes(b"records and more")
    assert [says(), says()] == [2, 2]
    segment.with_name(f"{9:020}.log").touch()
    assert says() == 3
    assert set(read) == {(tmp_path, "3.9")}


@pytest.mark.kafka
def test_what_kafkas_tool_says_is_told(tmp_path):
    (tmp_path / f"{'0' * 20}.log").touch()
    with pytest.raises(LocalStackError, match=r"of Kafka 2\.0: .*cluster-metadata-decoder is not a recognized option"):
        read_log(tmp_path, "2.0")
    assert read_log(tmp_path, "3.9") == ({}, {})
