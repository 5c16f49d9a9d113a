"""ISR changes, by notification and by AlterPartition; each row is a sentence."""

from dataclasses import replace

import pytest

from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.model.partitions import BrokerId, LeaderRecoveryState, ReplicaAssignment
from tests.controller_core.clusters import T0, cluster, led, partition, run, zookeeper_of


@pytest.mark.parametrize("version", ["2.6", "2.7", "1.0"])
def test_isr_notifications_are_listed_read_told_and_deleted(version):
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)}, version=version, ibp="1.0" if version == "1.0" else "2.6")
    notes = {"isr_change_1": (T0,), "isr_change_2": (T0, partition("ghost-0"))}
    zookeeper = zookeeper_of(
        context, isr_notifications=notes, states={T0: led(1, (1,), version=9, controller_epoch=77)}
    )
    found = run(context, events.IsrNotificationsChanged(tuple(notes)), zookeeper)
    assert found.leadership("t-0").isr == (1,)
    assert found.of(e.DeleteIsrNotifications)[0].names == ("isr_change_1", "isr_change_2")
    assert [row.partition for row in found.of(e.SendUpdateMetadata)[0].partition_states] == [T0]
    assert found.kinds()[-1] == "DeleteIsrNotifications"
    assert ("ListIsrNotifications" in found.kinds()) is (version != "1.0")


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("ReadIsrNotifications", "they are deleted all the same"),
        ("ReadPartitionStates", "they are deleted all the same"),
        ("ListIsrNotifications", "they stay, and the next event lists them again"),
    ],
)
def test_after_an_error_exactly_the_listed_notifications_go_and_the_loss_is_told(failing, said):
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, isr_notifications={"isr_change_1": (T0,)}, failures={failing: "CONNECTIONLOSS"})
    found = run(context, events.IsrNotificationsChanged(), zookeeper)
    assert bool(found.of(e.DeleteIsrNotifications)) is (failing != "ListIsrNotifications")
    assert not found.of(e.SendUpdateMetadata)
    (refusal,) = found.refusals
    assert (refusal.subject, said in refusal.reason) == ("/isr_change_notification", True)


RECOVERING = LeaderRecoveryState.RECOVERING


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param({}, None, id="a smaller ISR"),
        pytest.param({"partition": "unknown-id"}, "UNKNOWN_TOPIC_ID", id="unknown topic id"),
        pytest.param({"partition": partition("ghost-0")}, "UNKNOWN_TOPIC_OR_PARTITION", id="unknown partition"),
        pytest.param({"leader_epoch": 6}, "NOT_CONTROLLER", id="a later leader epoch"),
        pytest.param({"partition_epoch": 8}, "NOT_CONTROLLER", id="a later partition epoch"),
        pytest.param({"leader_epoch": 4}, "FENCED_LEADER_EPOCH", id="an older leader epoch"),
        pytest.param({"partition_epoch": 6}, "INVALID_UPDATE_VERSION", id="an older partition epoch"),
        pytest.param({"recovery": RECOVERING}, "INVALID_REQUEST", id="from recovered to recovering"),
        pytest.param({"recovery": RECOVERING, "isr": (1, 2)}, "INVALID_REQUEST", id="recovering with two members"),
        pytest.param({"isr": (1, 4)}, "INELIGIBLE_REPLICA", id="a dead member"),
    ],
)
def test_alter_partition(change, error):
    context = cluster({"t-0": (1, 2, 4)})
    told = {"partition": T0, "leader_epoch": 5, "partition_epoch": 7, "isr": (1,)} | change
    found = run(context, events.AlterPartition(BrokerId(1), 1, (events.IsrChange(**told),)))
    reply = found.of(e.ReplyAlterPartition)[0]
    assert dict(reply.errors) == ({told["partition"]: error} if error else {})
    assert bool(found.of(e.WritePartitionStates)) is (error is None)
    heard = [row.partition for row in found.of(e.SendUpdateMetadata)[0].partition_states]
    assert heard == ([T0] if told["partition"] == T0 else [])  # brokers hear of all that was asked, refused or not
    if error == "INELIGIBLE_REPLICA":
        older = run(context, events.AlterPartition(BrokerId(1), 1, (events.IsrChange(**told),), api_version=1))
        assert dict(older.of(e.ReplyAlterPartition)[0].errors) == {T0: "OPERATION_NOT_ATTEMPTED"}


def test_before_kafka_3_3_a_leader_may_take_back_a_broker_that_shuts_down():
    asked = events.AlterPartition(BrokerId(1), 1, (events.IsrChange(T0, 5, 7, (1, 2)),))
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(1, (1,))}, version="3.2")
    found = run(replace(context, shutting_down=frozenset({BrokerId(2)})), asked)
    assert found.of(e.WritePartitionStates)[0].states[0][1].isr == (1, 2)


def test_alter_partition_is_idempotent_and_fenced():
    context = cluster({"t-0": (1, 2, 3)})
    stale = run(context, events.AlterPartition(BrokerId(1), 9, ()))
    assert stale.of(e.ReplyAlterPartition)[0].error == "STALE_BROKER_EPOCH"
    same = events.IsrChange(T0, 5, 3, (1, 2, 3))
    again = run(context, events.AlterPartition(BrokerId(1), 1, (same,)))
    assert dict(again.of(e.ReplyAlterPartition)[0].accepted)[T0].partition_epoch == 7
    assert not again.of(e.WritePartitionStates)
    smaller = events.AlterPartition(BrokerId(1), 1, (events.IsrChange(T0, 5, 7, (1,)),))
    raced = run(context, smaller, zookeeper_of(context, lost_races={T0: 1}))
    assert dict(raced.of(e.ReplyAlterPartition)[0].errors) == {T0: "INVALID_UPDATE_VERSION"}
    broken = run(context, smaller, zookeeper_of(context, failures={"WritePartitionStates": "NOAUTH"}))
    assert dict(broken.of(e.ReplyAlterPartition)[0].errors) == {T0: "UNKNOWN_SERVER_ERROR"}


def moving(version="3.9", ibp=None):
    context = cluster({"t-0": (1, 2)}, version=version, ibp=ibp)
    after = ReplicaAssignment((BrokerId(1), BrokerId(2)), removing=(BrokerId(2),))
    context = context.with_entry(T0, assignment=after)
    return replace(context, partitions_being_reassigned=context.partitions_being_reassigned.set(T0, None))


def test_an_isr_that_is_there_already_completes_a_reassignment():
    same = events.IsrChange(T0, 5, 7, (1, 2))
    found = run(moving(), events.AlterPartition(BrokerId(1), 1, (same,)))
    assert found.context.full_assignment(T0) == ReplicaAssignment((1,))


@pytest.mark.parametrize(
    ("times", "epoch"),
    [
        pytest.param(1, 7, id="once: the reassignment completes, and the removed replica leaves the ISR"),
        pytest.param(2, 8, id="twice: it completes again"),
    ],
)
def test_a_partition_that_is_named_twice_completes_twice(times, epoch):
    context = moving("2.7", "2.6")
    notes = {f"isr_change_{number}": (T0,) for number in range(times)}
    found = run(context, events.IsrNotificationsChanged(), zookeeper_of(context, isr_notifications=notes))
    assert found.context.full_assignment(T0) == ReplicaAssignment((1,))
    assert found.leadership("t-0").leader_epoch == epoch


def test_metadata_errors_are_told():
    context = cluster({"t-0": (1, 2)})
    assert run(context, events.UpdateMetadataAnswered(BrokerId(1), "STALE_BROKER_EPOCH")).refusals
    assert not run(context, events.UpdateMetadataAnswered(BrokerId(1), "NONE")).refusals


def test_a_notification_that_names_nothing_is_deleted():
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, isr_notifications={"isr_change_1": ()})
    found = run(context, events.IsrNotificationsChanged(), zookeeper)
    assert found.kinds() == ["ListIsrNotifications", "ReadIsrNotifications", "DeleteIsrNotifications"]
