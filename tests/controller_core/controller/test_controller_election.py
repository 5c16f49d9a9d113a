"""Who is the active controller: election, failover, fencing, resignation, KRaft; and how a step treats what comes while it waits."""

from dataclasses import replace

import pytest

from controller_core.controller import elections
from controller_core.controller.controller_resignation import resigned
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.step import step
from controller_core.engine.turn import NOTHING_UNDER_WAY
from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.errors import NotSettledError, UnexpectedAnswerError
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState
from controller_core.runtime.driver import answered_steps
from tests.controller_core.clusters import ZooKeeper, broker, cluster, led, partition, perform, run, zookeeper_of

T0 = partition("t-0")
VERSIONS = ["0.10.2", "1.0", "1.1", "2.1", "2.3", "2.4", "2.8", "3.9"]


def vacant(context):
    return replace(resigned(context), active_controller_id=None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("event", [events.Startup(), events.SessionEstablished(), events.ControllerVanished()])
def test_where_no_controller_is_active_it_becomes_active_and_reads_the_cluster(version, event):
    context = cluster(
        {"t-0": (1, 2), "t-1": (3, 2)},
        live=(1, 2),
        states={"t-0": led(1, (1, 2)), "t-1": led(3, (3, 2))},
        version=version,
    )
    zookeeper = zookeeper_of(
        context, controller=None, isr_notifications={"isr_change_1": (T0,)}, log_dir_events={"x": 1}
    )
    found = run(vacant(context), event, zookeeper)
    assert found.context.active_controller_id == 1
    assert found.context.epoch == 2
    assert found.context.partition_state(T0) is PartitionState.ONLINE
    assert found.leadership("t-1").leader == 2
    assert found.of(e.ScheduleRebalance)[0].delay_s == 5
    assert bool(found.of(e.DeleteIsrNotifications)) is found.context.dialect.failover_deletes_notifications
    assert bool(found.of(e.DeleteLogDirEvents)) is found.context.dialect.log_dir_failures
    first = next(effect for effect in found.effects if isinstance(effect, e.SendUpdateMetadata | e.SendLeaderAndIsr))
    assert isinstance(first, e.SendUpdateMetadata)
    assert bool(first.partition_states) is found.context.dialect.empty_update_metadata_means_all_partitions


def test_requests_of_before_are_picked_up():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2), "v-0": (1, 2), "w-0": (2, 1)}, live=(1, 2, 3, 4))
    moving = ReplicaAssignment((3, 1, 2), (3,), (2,))
    topics = {
        name: answers.TopicContent({0: moving if name == "u" else ReplicaAssignment((1, 2))}, f"id-of-{name}")
        for name in ("t", "u", "v", "w")
    }
    zookeeper = zookeeper_of(
        context, controller=None, topics=topics, targets={T0: (1, 4)}, deletions=("v",),
        elections=(partition("w-0"), T0), states={partition("w-0"): led(2, (1, 2))},
    )  # fmt: skip
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.context.partitions_under_reassignment() == [T0, partition("u-0")]
    assert found.context.topics_with_deletion_started == {"v"}
    assert found.leadership("w-0").leader == 1
    assert zookeeper.elections is None


@pytest.mark.parametrize(
    ("version", "epoch"), [("0.10.2", 6), ("1.0", 6), ("1.1", 6), ("2.1", 6), ("2.3", 6), ("3.9", 6)]
)
def test_an_election_of_before_is_not_done_twice(version, epoch):
    led_by = {"t-0": led(1, (1, 2)), "w-0": led(1, (1, 2)), "v-0": led(1, (1, 2))}
    context = cluster({"t-0": (1, 2), "w-0": (2, 1), "v-0": (2, 1)}, states=led_by, version=version)
    context = replace(context, config=replace(context.config, delete_topic=True))
    pending = (T0, partition("w-0"), partition("v-0"), partition("ghost-0"))
    zookeeper = zookeeper_of(context, controller=None, elections=pending, deletions=("v",))
    found = run(vacant(context), events.Startup(), zookeeper)
    assert (found.leadership("w-0").leader, found.leadership("w-0").leader_epoch) == (2, epoch)
    assert found.leadership("t-0").leader_epoch == 5
    assert zookeeper.elections is None
    told = [(str(r.subject), r.error) for r in found.refusals if r.kind is RefusalKind.INVALID_REQUEST]
    assert told == [("ghost-0", "UNKNOWN_TOPIC_OR_PARTITION"), ("v-0", "INVALID_TOPIC_EXCEPTION")]


@pytest.mark.parametrize("version", ["2.0", "3.9"])
def test_an_election_of_before_for_what_never_had_a_leader(version):
    context = cluster({"t-0": (9,), "u-0": (2, 1)}, states={"u-0": led(1, (1, 2))}, version=version)
    zookeeper = zookeeper_of(context, controller=None, elections=(T0, partition("u-0")))
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.leadership("u-0").leader == 2
    assert zookeeper.elections is None
    assert any("ends the failover" in refusal.kafka for refusal in found.refusals)


@pytest.mark.parametrize("version", ["1.0", "2.3"])
def test_a_failover_runs_what_the_request_node_holds(version):
    context = cluster({"t-0": (1, 2)}, version=version)
    zookeeper = zookeeper_of(context, controller=None, targets={T0: (1, 3)})
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.leadership("t-0").leader_epoch == 6
    assert set(found.context.assignment(T0)) == {1, 2, 3}


def test_through_2_3_requests_of_before_are_known_before_deletions():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=(1, 2, 3), version="2.3")
    targets = {T0: (1, 3), partition("u-0"): (1, 2), partition("ghost-0"): (1,)}
    zookeeper = zookeeper_of(context, controller=None, targets=targets, deletions=("t",))
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.context.topics_ineligible_for_deletion == {"t"} or not found.context.topics_to_be_deleted
    assert zookeeper.targets is None


def test_another_controller_is_active():
    context = cluster({"t-0": (1, 2)})
    found = run(vacant(context), events.Startup(), zookeeper_of(context, controller=7))
    assert found.context.active_controller_id == 7
    assert not found.of(e.RegisterController)


@pytest.mark.parametrize("fields", [{"kraft_epoch": 3}, {"migrating": True}])
def test_kraft_is_refused(fields):
    context = cluster({"t-0": (1, 2)})
    found = run(vacant(context), events.Startup(), zookeeper_of(context, controller=None, **fields))
    assert found.refusals[0].kind is RefusalKind.KRAFT
    assert not found.of(e.RegisterController)


@pytest.mark.parametrize("error", ["NODEEXISTS", "CONTROLLER_MOVED"])
def test_somebody_was_faster(error):
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, controller=None, failures={"RegisterController": error})
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.context.active_controller_id is None
    assert found.kinds().count("ReadController") == 2


class Interrupted(ZooKeeper):
    """A registration that fails after `/controller` was created, by this controller or by another one."""

    error = "CONTROLLER_MOVED"
    holder = 1

    def answer(self, effect):
        if isinstance(effect, e.RegisterController):
            self.controller = self.holder
            return answers.Failed(effect, self.error)
        return super().answer(effect)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        pytest.param("0.10.2", "CONTROLLER_MOVED", id="the epoch was raised by another, 0.10.2"),
        pytest.param("2.0", "CONTROLLER_MOVED", id="the epoch was raised by another, 2.0"),
        pytest.param("2.0", "CONNECTIONLOSS", id="the connection was lost in between, 2.0"),
        pytest.param("3.9", "CONNECTIONLOSS", id="the answer was lost, 3.9"),
    ],
)
def test_a_registration_that_fails_half_way_is_taken_back(version, error):
    context = cluster({"t-0": (1, 2)}, version=version)
    zookeeper = Interrupted(found=context, controller=None)
    zookeeper.error = error
    found = run(vacant(context), events.Startup(), zookeeper)
    assert [effect.controller_epoch_version for effect in found.of(e.DeleteControllerNode)] == [None]
    assert (found.context.active_controller_id, zookeeper.controller) == (None, None)


def test_since_2_1_a_lost_race_left_no_controller_znode_that_could_be_deleted():
    context = cluster({"t-0": (1, 2)})
    found = run(vacant(context), events.Startup(), Interrupted(found=context, controller=None))
    assert found.refusals[0].kind is RefusalKind.CONTROLLER_MOVED
    assert not found.of(e.DeleteControllerNode)


@pytest.mark.parametrize(("version", "error"), [("2.0", "CONTROLLER_MOVED"), ("3.9", "NOAUTH")])
def test_what_another_one_holds_by_then_is_left_alone(version, error):
    context = cluster({"t-0": (1, 2)}, version=version)
    zookeeper = Interrupted(found=context, controller=None)
    zookeeper.error, zookeeper.holder = error, 7
    found = run(vacant(context), events.Startup(), zookeeper)
    assert not found.of(e.DeleteControllerNode)
    assert (found.context.active_controller_id, zookeeper.controller) == (7, 7)


READS = [
    "ListLogDirEvents", "ListIsrNotifications", "ReadBrokers", "ReadTopics", "ReadTopicAssignments",
    "ReadPartitionStates", "ReadDeletionRequests",
]  # fmt: skip


@pytest.mark.parametrize("failing", READS)
def test_a_failover_that_cannot_read_resigns(failing):
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, controller=None, failures={failing: "CONNECTIONLOSS"})
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.context.active_controller_id is None
    assert zookeeper.controller is None
    assert found.of(e.DeleteControllerNode)
    assert found.of(e.CancelSchedules)
    assert "failover given up" in found.refusals[-1].reason


def test_malformed_states_are_isolated_at_a_failover():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)})
    zookeeper = zookeeper_of(context, controller=None, problems={T0: answers.ReadProblem("MALFORMED", "no leader")})
    found = run(vacant(context), events.Startup(), zookeeper)
    assert found.leadership("u-0").leader == 1
    assert any("the controller resigns" in refusal.kafka for refusal in found.refusals)


def test_an_empty_cluster_can_be_controlled():
    context = cluster({}, live=())
    quiet = replace(context, config=replace(context.config, auto_leader_rebalance=False))
    found = run(vacant(quiet), events.Startup(), zookeeper_of(quiet, controller=None))
    assert found.context.active_controller_id == 1
    assert not found.of(e.ScheduleRebalance)


def test_another_controller_makes_this_one_resign():
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.ControllerChanged(), zookeeper_of(context, controller=2))
    assert found.context.active_controller_id == 2
    assert (found.context.epoch, len(found.context.partitions)) == (0, 0)
    assert found.of(e.CloseChannels)[0].brokers is None
    assert run(context, events.ControllerChanged(), zookeeper_of(context)).context == context


def test_one_that_is_out_while_a_broker_bounces_closes_that_channel_too():
    """The broker is not among the live ones at that moment; its channel would keep what a later term must not send."""
    context = cluster({"t-0": (1, 2)})
    failures = {"WritePartitionStates": answers.CONTROLLER_MOVED}
    back = (broker(1, epoch=9), broker(2), broker(3))
    zookeeper = zookeeper_of(context, controller=2, brokers=back, failures=failures)
    found = run(context, events.BrokersChanged(), zookeeper)
    assert [closed.brokers for closed in found.of(e.CloseChannels)] == [(1,), None]


@pytest.mark.parametrize("event", [events.MoveController(), events.ControllerChanged(), events.ControllerVanished()])
def test_an_unreadable_controller_znode_changes_nothing(event):
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, failures={"ReadController": "CONNECTIONLOSS"})
    assert run(context, event, zookeeper).context.active_controller_id == 1


def test_a_voluntary_move_deletes_the_node_under_the_old_version():
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.MoveController(), zookeeper_of(context))
    assert found.of(e.DeleteControllerNode)[0].controller_epoch_version == 1
    assert found.context.active_controller_id is None
    assert not run(context, events.MoveController(), zookeeper_of(context, controller=5)).of(e.DeleteControllerNode)


def test_a_lost_session_empties_the_queue():
    context = cluster({"t-0": (1, 2)})
    queued = step(context, events.BrokersChanged()).then(events.TopicsChanged())
    found = queued.then(answers.Failed(queued.awaiting, answers.SESSION_EXPIRED))
    assert (found.under_way, found.context.epoch) == (NOTHING_UNDER_WAY, 0)
    assert found.refusals[0].error == "SessionExpired"
    assert run(context, events.SessionExpired()).context.active_controller_id is None


@pytest.mark.parametrize(
    ("version", "answered"),
    [
        pytest.param("2.1", [], id="nobody"),
        pytest.param("2.6", [e.ReplyControlledShutdown, e.ReplyElections], id="not yet who reassigns"),
        pytest.param(
            "2.7",
            [e.ReplyControlledShutdown, e.ReplyElections, e.ReplyReassignments, e.ReplyReassignmentList],
            id="everybody but leaders",
        ),
    ],
)
def test_a_lost_session_answers_whom_it_pre_empts(version, answered):
    context = cluster({"t-0": (1, 2)}, version=version)
    waiting = step(context, events.BrokersChanged())
    for event in (
        *(events.TopicsChanged(), events.AlterPartition(BrokerId(1), 1, ()), events.ControlledShutdown(BrokerId(2))),
        *(events.ElectLeaders((T0,)), events.AlterReassignments(((T0, None),)), events.ListReassignments()),
    ):
        waiting = waiting.then(event)
    ended = waiting.then(events.SessionExpired())
    assert [type(each) for each in ended.effects] == answered
    assert (ended.awaiting, ended.under_way.inbox) == (waiting.awaiting, (events.SessionExpired(),))
    failed = waiting.then(answers.Failed(waiting.awaiting, answers.SESSION_EXPIRED))
    assert failed.effects[: len(answered)] == ended.effects


def test_who_is_pre_empted_hears_that_another_controller_rules():
    waiting = step(cluster({"t-0": (1, 2)}), events.BrokersChanged()).then(events.ElectLeaders((T0,)))
    waiting = waiting.then(events.ListReassignments()).then(events.ControlledShutdown(BrokerId(2)))
    election, listed, shutdown = waiting.then(events.SessionExpired()).effects
    assert (election.errors, listed.error, shutdown.error) == (
        ((T0, "NOT_CONTROLLER"),),
        "NOT_CONTROLLER",
        "ControllerMoved",
    )


def test_what_comes_after_the_end_of_a_session_is_not_dropped():
    context = cluster({"t-0": (1, 2)})
    waiting = step(context, events.BrokersChanged()).then(events.SessionExpired()).then(events.SessionEstablished())
    found = waiting.then(answers.BrokersRead(waiting.awaiting, tuple(context.brokers.values())))
    assert found.context.active_controller_id is None
    assert isinstance(found.awaiting, e.ReadController)


def test_a_write_that_the_epoch_check_refuses_in_a_call_that_had_collected_says_what_becomes_of_that_in_kafka():
    context = cluster({"t-0": (1, 2), "t-1": (2, 1)}).without_brokers([BrokerId(2)])
    zookeeper = zookeeper_of(context, controller=2, failures={"WritePartitionStates": answers.CONTROLLER_MOVED})
    offline = ChangeReplicaStates((PartitionAndReplica(T0, BrokerId(2)),), ReplicaState.OFFLINE)
    assert "every call of that state machine fails" in perform(context, offline, zookeeper=zookeeper).refusals[0].kafka
    elected = ChangePartitionStates((T0,), PartitionState.ONLINE, elections.PREFERRED)
    assert perform(context, elected, zookeeper=zookeeper).refusals[0].kafka == ""  # nothing had been collected


def test_a_write_that_the_epoch_check_refuses_gives_up_what_was_under_way():
    context = cluster({"t-0": (1, 2)}).without_brokers([BrokerId(1)])
    zookeeper = zookeeper_of(context, controller=2, failures={"WritePartitionStates": answers.CONTROLLER_MOVED})
    zookeeper.brokers = tuple(context.brokers.values())
    found = run(replace(context, brokers=cluster({}).brokers), events.BrokersChanged(), zookeeper)
    assert found.refusals[0].kind is RefusalKind.CONTROLLER_MOVED
    assert found.context.active_controller_id == 2
    assert not found.of(e.SendLeaderAndIsr)


EVENTS = [
    events.BrokersChanged(), events.TopicsChanged(), events.DeletionsChanged(), events.RebalanceDue(), events.ControlledShutdown(BrokerId(1)),
    events.AlterPartition(BrokerId(1), 1, ()), events.AlterReassignments(()), events.ElectLeaders(), events.ListReassignments(),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS)
def test_who_is_not_active_controller_does_nothing(event):
    context = replace(cluster({"t-0": (1, 2)}), active_controller_id=BrokerId(2))
    found = run(context, event)
    assert found.refusals[0].kind is RefusalKind.NOT_ACTIVE
    assert all(type(effect).__name__.startswith("Reply") for effect in found.effects)


def test_events_wait_while_an_answer_is_awaited():
    context = cluster({"t-0": (1, 2)})
    queued = step(context, events.BrokersChanged()).then(events.TopicsChanged())
    assert (queued.effects, queued.under_way.inbox) == ((), (events.TopicsChanged(),))
    done = queued.then(answers.BrokersRead(queued.awaiting, tuple(context.brokers.values())))
    assert isinstance(done.awaiting, e.ReadTopics)


def test_an_answer_that_nobody_waits_for_is_a_bug():
    context = cluster({"t-0": (1, 2)})
    with pytest.raises(UnexpectedAnswerError, match="waiting for nothing"):
        step(context, answers.Done(e.ReadTopics()))
    waiting = step(context, events.BrokersChanged())
    with pytest.raises(UnexpectedAnswerError, match="waiting for ReadBrokers"):
        waiting.then(answers.Done(e.ReadTopics()))


def test_answering_is_bounded():
    context = cluster({"t-0": (1, 2)})
    first, zookeeper = step(context, events.BrokersChanged()), zookeeper_of(context)
    with pytest.raises(NotSettledError, match="not settled after 0 answers; awaits one to ReadBrokers"):
        list(answered_steps(first, zookeeper.answer, limit=0))


def test_equal_inputs_give_equal_steps():
    one, other = (cluster({"t-0": (1, 2), "t-1": (2, 3)}) for _ in range(2))
    assert step(one, events.BrokersChanged()) == step(other, events.BrokersChanged())
    assert one == other
