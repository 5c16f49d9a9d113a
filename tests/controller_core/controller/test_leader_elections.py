"""Leaders on purpose: rebalance, elections that are asked for, controlled shutdown; each row is a sentence."""

from dataclasses import replace

import pytest
from immutables import Map

from controller_core.controller.leader_elections import RebalanceLeaders
from controller_core.controller.leader_imbalance import (
    DEAD,
    ELECTION_RUNNING,
    NOT_IN_ISR,
    REASSIGNMENT_RUNNING,
    TOPIC_UNKNOWN,
    leader_imbalance,
    triggered_brokers,
)
from controller_core.engine.batch import BatchFault
from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.model.partitions import BrokerId, ReplicaAssignment
from controller_core.model.states import PartitionState
from tests.controller_core.clusters import T0, cluster, led, partition, perform, run, zookeeper_of


@pytest.mark.parametrize(
    ("version", "isr", "fields", "reason"),
    [
        ("3.9", (2, 1), {}, None),
        ("3.9", (2,), {}, NOT_IN_ISR),
        ("2.4", (2,), {}, None),
        ("3.3", (2, 1), {"partitions_being_reassigned": Map({partition("x-0"): None})}, REASSIGNMENT_RUNNING),
        ("0.10.2", (2, 1), {"partitions_in_preferred_election": frozenset({T0})}, ELECTION_RUNNING),
        ("3.9", (2, 1), {"shutting_down": frozenset({1})}, DEAD),
        ("0.10.2", (2, 1), {"shutting_down": frozenset({1})}, DEAD),
    ],
)
def test_which_elections_would_help(version, isr, fields, reason):
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(2, isr)}, version=version, **fields)
    found = leader_imbalance(context)[BrokerId(1)]
    assert (found.preferred, found.imbalanced, found.ratio) == (1, (T0,), 1.0)
    assert found.electable == (() if reason else (T0,))
    assert found.not_electable == (((T0, reason),) if reason else ())


def test_a_partition_of_an_unknown_topic_is_not_elected():
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(2, (1, 2))})
    context = replace(context, topics=context.topics.set("t", context.topics["t"]._replace(known=False)))
    assert leader_imbalance(context)[BrokerId(1)].not_electable == ((T0, TOPIC_UNKNOWN),)


@pytest.mark.parametrize("version", ["3.9", "1.0"])
def test_the_automatic_rebalance_elects_and_comes_again(version):
    context = cluster(
        {"t-0": (1, 2), "u-0": (1, 2)}, states={"t-0": led(2, (1, 2)), "u-0": led(2, (1, 2))}, version=version
    )
    found = run(context, events.RebalanceDue())
    assert [found.leadership(name).leader for name in ("t-0", "u-0")] == [1, 1]
    assert found.of(e.ScheduleRebalance)[0].delay_s == 300


def test_a_partition_without_replicas_does_not_stop_the_rebalance():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, states={"u-0": led(2, (1, 2))})
    context = context.with_entry(T0, assignment=ReplicaAssignment(()))
    found = perform(context, RebalanceLeaders())
    assert found.leadership("u-0").leader == 1
    assert "no partition of the cluster is rebalanced" in found.refusals[0].kafka


@pytest.mark.parametrize(
    ("name", "leader", "unclean", "error"),
    [
        ("t-0", 2, False, ""),
        ("t-0", 1, False, "ELECTION_NOT_NEEDED"),
        ("t-0", 2, True, "ELECTION_NOT_NEEDED"),
        ("ghost-0", 2, False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("gone-0", 2, False, "INVALID_TOPIC_EXCEPTION"),
        ("gone-1", 2, False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("lagging-0", 2, False, "PREFERRED_LEADER_NOT_AVAILABLE"),
        ("dark-0", 2, True, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        ("dim-0", 2, True, ""),
    ],
)
def test_an_administrator_asks_for_elections(name, leader, unclean, error):
    states = {
        "t-0": led(leader, (1, 2)), "gone-0": led(2, (1, 2)), "lagging-0": led(2, (2,)), "dark-0": led(-1, (4,)),
        "dim-0": led(-1, (4,)),
    }  # fmt: skip
    replicas = {"t-0": (1, 2), "gone-0": (1, 2), "lagging-0": (1, 2), "dark-0": (4,), "dim-0": (1, 4)}
    context = cluster(replicas, states=states).queue_topic_deletion(["gone"])
    context = context.with_entry(partition("dark-0"), state=PartitionState.OFFLINE)
    found = run(context, events.ElectLeaders((partition(name),), unclean))
    assert dict(found.of(e.ReplyElections)[0].errors) == {partition(name): error}


def test_no_partition_means_all_of_them():
    context = cluster({"t-0": (1, 2), "new-0": (1, 2)}, states={"t-0": led(2, (1, 2))})
    found = run(context, events.ElectLeaders())
    assert [p for p, _ in found.of(e.ReplyElections)[0].errors] == [partition("new-0"), T0]


@pytest.mark.parametrize("version", ["3.9", "1.1", "0.10.2"])
def test_a_preferred_election_from_the_request_node(version):
    states = {"t-0": led(2, (1, 2)), "gone-0": led(2, (1, 2))}
    context = cluster({"t-0": (1, 2), "gone-0": (1, 2)}, states=states, version=version).queue_topic_deletion(["gone"])
    zookeeper = zookeeper_of(context, elections=(T0, partition("gone-0")))
    found = run(context, events.PreferredElectionRequested(), zookeeper)
    assert found.leadership("t-0").leader == 1
    assert zookeeper.elections is None
    assert found.refusals[0].error == "INVALID_TOPIC_EXCEPTION"
    assert run(context, events.PreferredElectionRequested(), zookeeper_of(context)).kinds() == [
        "ReadPreferredElectionRequest"
    ]


@pytest.mark.parametrize(
    ("version", "stays"),
    [
        pytest.param("0.10.2", True, id="wedged in 0.10.2"),
        pytest.param("1.0", True, id="wedged in 1.0"),
        pytest.param("2.1", True, id="wedged in 2.1"),
        pytest.param("2.2", False, id="filtered since 2.2"),
    ],
)
@pytest.mark.parametrize("name", ["ghost-0", "new-0"])
def test_a_requested_election_of_what_nobody_leads(version, stays, name):
    context = cluster({"t-0": (1, 2), "new-0": (9,)}, states={"t-0": led(2, (1, 2))}, version=version)
    asked = (T0, partition(name))
    zookeeper = zookeeper_of(context, elections=asked)
    found = run(context, events.PreferredElectionRequested(), zookeeper)
    assert found.leadership("t-0").leader == 1
    assert zookeeper.elections == (asked if stays else None)
    assert any("so the node stays" in refusal.kafka for refusal in found.refusals) is stays
    assert any("looking for its leader raises" in r.kafka for r in found.refusals) is (not stays and name == "new-0")


@pytest.mark.parametrize("queued", [False, True])
def test_at_a_failover_kafka_asks_for_the_leader_of_what_is_to_be_deleted_too(queued):
    context = cluster({"t-0": (1, 2), "new-0": (9,)}, states={"t-0": led(2, (1, 2))})
    zookeeper = zookeeper_of(context, elections=(T0, partition("new-0")), controller=None)
    zookeeper.deletions = ("new",) if queued else ()
    found = run(context, events.ControllerVanished(), zookeeper)
    assert found.leadership("t-0").leader == 1
    assert any("ends the failover" in refusal.kafka for refusal in found.refusals)


def test_through_0_10_2_a_wedged_election_stands_against_deletions():
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(2, (1, 2))}, version="0.10.2")
    zookeeper = zookeeper_of(context, elections=(T0, partition("ghost-0")))
    found = run(context, events.PreferredElectionRequested(), zookeeper)
    assert found.context.partitions_in_preferred_election == {T0, partition("ghost-0")}
    again = run(found.context, events.PreferredElectionRequested(), zookeeper)
    assert not again.of(e.WritePartitionStates)  # both are under way already
    assert zookeeper.elections is None


def test_before_2_4_an_election_that_is_not_needed_is_no_error():
    context = cluster({"t-0": (1, 2), "gone-0": (1, 2)}, version="2.3").queue_topic_deletion(["gone", "ghost"])
    names = [partition(name) for name in ("t-0", "gone-0", "ghost-0")]
    found = run(context, events.ElectLeaders(tuple(names)))
    errors = ("", "INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION")
    assert found.of(e.ReplyElections)[0].errors == tuple(zip(names, errors, strict=True))
    asked = zookeeper_of(context, elections=(T0,))
    assert not run(context, events.PreferredElectionRequested(), asked).refusals
    assert asked.elections is None


@pytest.mark.parametrize(("version", "error"), [("2.3", "UNSUPPORTED_VERSION"), ("2.4", "")])
def test_before_2_4_nobody_can_ask_for_unclean_elections(version, error):
    context = cluster({"t-0": (4, 1)}, states={"t-0": led(-1, (4,))}, version=version)
    context = context.with_entry(T0, state=PartitionState.OFFLINE)
    found = run(context, events.ElectLeaders((T0,), unclean=True))
    assert found.of(e.ReplyElections)[0].error == error
    assert found.leadership("t-0").leader == (-1 if error else 1)


@pytest.mark.parametrize(("version", "told"), [("2.0", ["gone-0", "t-0"]), ("2.1", ["t-0"]), ("3.9", ["t-0"])])
def test_what_a_leaving_broker_still_leads_of_queued_topics(version, told):
    states = {"t-0": led(2, (2,)), "gone-0": led(2, (2,))}
    context = cluster({"t-0": (2, 1), "gone-0": (2, 1)}, states=states, version=version).queue_topic_deletion(["gone"])
    found = run(context, events.ControlledShutdown(BrokerId(2)))
    assert list(map(str, found.of(e.ReplyControlledShutdown)[0].partitions_still_led)) == told


def test_a_controlled_shutdown_with_a_broken_batch_is_answered():
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.ControlledShutdown(BrokerId(2)), batch_fault=BatchFault.SEND)
    assert found.of(e.ReplyControlledShutdown)[0].error == "IllegalState"
    assert found.of(e.DeleteControllerNode)
    assert found.leadership("t-0") is None


@pytest.mark.parametrize(
    ("broker_id", "epoch", "version", "error"),
    [
        (9, None, "3.9", "BrokerNotAvailable"),
        (9, -1, "3.9", "BrokerNotAvailable"),
        (9, 4, "3.9", "NoSuchElement"),
        (9, 4, "2.1", "BrokerNotAvailable"),
        (2, 0, "3.9", "StaleBrokerEpoch"),
        (2, 1, "3.9", ""),
        (2, -1, "3.9", ""),
        (2, None, "2.0", ""),
    ],
)
def test_controlled_shutdown(broker_id, epoch, version, error):
    context = cluster({"t-0": (2, 1), "t-1": (1, 2), "t-2": (2,), "t-3": (2, 3)}, version=version)
    context = context.with_entry(partition("t-3"), leadership=led(2, (2,)))
    found = run(context, events.ControlledShutdown(BrokerId(broker_id), epoch), zookeeper_of(context))
    reply = found.of(e.ReplyControlledShutdown)[0]
    assert reply.error == error
    if not error:
        assert reply.partitions_still_led == (partition("t-3"),)
        assert found.leadership("t-0").leader == 1
        assert found.leadership("t-1").isr == (1,)
        assert found.context.shutting_down == {2}


@pytest.mark.parametrize(
    ("elsewhere", "triggered"),
    [
        pytest.param(9, [], id="below"),
        pytest.param(10, [], id="exactly the percentage"),
        pytest.param(11, [BrokerId(1)], id="above"),
    ],
)
def test_the_10_percent_rule_is_strict(elsewhere, triggered):
    names = [f"t-{number}" for number in range(100)]
    states = {name: led(2 if number < elsewhere else 1, (1, 2)) for number, name in enumerate(names)}
    context = cluster(dict.fromkeys(names, (1, 2)), states=states)
    assert context.config.imbalance_percentage == 10
    assert triggered_brokers(context, leader_imbalance(context)) == triggered
