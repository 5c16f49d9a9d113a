"""Since when a znode is as it is, and who wrote it, as far as snapshots know."""

import json
from datetime import UTC, datetime

import pytest

from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.snapshots.blame import blame, blame_json, blame_text
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.snapshots.taken import OPS, take

pytestmark = pytest.mark.services


def test_blame_passes_over_what_may_not_be_read(half_open, chroot, store):
    for day, auth in enumerate((OPS, None, OPS)):
        take(chroot, store, day, auth=auth)
    report = blame(store, "alpha", "orders")
    histories = {each.field: [seen.value for seen in each.history] for each in report.blames}
    assert histories["config retention.ms"] == ["1000"]
    assert histories["leader of 0"] == [1]
    assert histories["replicas of 0"] == [[1, 2]]
    assert histories["deletion_requested"] == [False]
    assert "/config/topics could not be read in 1 of 3 snapshots" in blame_text(report)
    assert "/config/users" not in blame_text(report)
    (deleted,) = [each for each in blame(store, "alpha", "payments").blames if each.field == "deletion_requested"]
    assert [seen.value for seen in deleted.history] == [True]
    leader = {each.field: each.history for each in blame(store, "alpha", "orders-1").blames}["leader"]
    assert [seen.value for seen in leader] == [2]


def test_blame_of_what_no_snapshot_could_read(half_open, chroot, store):
    take(chroot, store)
    fields = {each.field for each in blame(store, "alpha", "orders-1").blames}
    assert "replicas" in fields
    assert "leader" not in fields
    with pytest.raises(ObjectMissingError, match="expected a topic, partition or znode of that name"):
        blame(store, "alpha", "nothing")


def test_blame_passes_over_what_is_dated_in_the_future(kafka, chroot, store):
    """A clock was wrong: what was taken then is not the present value."""
    future = take(chroot, store, 90_000)
    with pytest.raises(ObjectDamagedError, match=f"{future.snapshot_id}.* is dated in the future: 2272-"):
        blame(store, "alpha", "orders")
    kafka.set("/config/topics/orders", world.config(retention_ms="2000"), -1)
    take(chroot, store, 0)
    report = blame(store, "alpha", "orders")
    (retention,) = [each.history for each in report.blames if each.field == "config retention.ms"]
    assert ([seen.value for seen in retention], report.snapshot_count) == (["2000"], 1)
    assert f"passed over: snapshot {future.uri} is dated in the future" in blame_text(report)


def test_blame_tells_since_when(kafka, chroot, store):
    take(chroot, store, 0)
    kafka.set("/config/topics/orders", world.config(retention_ms="2000"), -1)
    second = take(chroot, store, 1)
    kafka.set("/brokers/topics/orders/partitions/1/state", world.state(1, 5, (1,)), -1)
    written = datetime.fromtimestamp(kafka.exists("/brokers/topics/orders/partitions/1/state").mtime // 1000, tz=UTC)
    third = take(chroot, store, 2)
    take(chroot, store, 3)
    histories = {each.field: each.history for each in blame(store, "alpha", "orders").blames}
    retention = histories["config retention.ms"]
    assert next((seen.value, seen.snapshot_id) for seen in retention) == ("2000", second.snapshot_id)
    assert retention[1].value == "1000"
    assert [seen.value for seen in histories["config cleanup.policy"]] == [None, "compact"]
    assert len(histories["replicas of 0"]) == 1
    partition = blame(store, "alpha", "orders-1")
    leader = {each.field: each.history for each in partition.blames}["leader"]
    assert next((seen.value, seen.snapshot_id) for seen in leader) == (1, third.snapshot_id)
    text = blame_text(partition)
    between = f"changed between {second.snapshot_id} of 2026-03-02 12:00+00:00 and {third.snapshot_id} of 2026-03-03 12:00+00:00"
    assert f"leader = 1  ({between}, znode last written {written.isoformat(sep=' ')}" in text
    assert "    before: 2  (as long as snapshots go back, znode last written " in text
    json.dumps(blame_json(partition))


def test_blame_of_what_nobody_knows(kafka, chroot, store):
    with pytest.raises(ObjectMissingError, match="no snapshots"):
        blame(store, "alpha", "orders")
    take(chroot, store)
    with pytest.raises(ObjectMissingError, match="not found in 1 snapshot of"):
        blame(store, "alpha", "absent-7")
