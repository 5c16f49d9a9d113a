"""From what was seen of a cluster to plans: what is planned, what is left out, what is refused."""

import pytest

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.conditions import (
    AssignedTo,
    CaughtUp,
    InSync,
    LedBy,
    NotificationsGone,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    StateReadable,
    TopicCreatedAt,
    TopicIs,
)
from controller_core.plans.kinds import (
    Origin,
    Refused,
    cancel_plan,
    deletions_plan,
    drain_plan,
    elections_plan,
    kind_record,
    leader_moves_plan,
    lingering_notifications,
    makes_no_notifications,
    reassignment_plan,
    target_refusals,
)
from controller_core.plans.observation import (
    ActiveController,
    Notification,
    Observation,
    RequestIdentity,
    TopicIdentity,
)
from controller_core.plans.plan import LeftOut, Plan, PlanKind, SnapshotReference
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    LeaderMove,
    Target,
)
from controller_core.plans.text import plan_markdown, plan_size, plan_summary
from controller_core.plans.topic_owners import owner_of

A0, A1, A2, B0, D0, Q0 = (
    TopicPartition(*each) for each in (("a", 0), ("a", 1), ("a", 2), ("b", 0), ("d", 0), ("q", 0))
)
ORIGIN = Origin("demo", SnapshotReference("s3://b/v1/manifest.json", "f" * 64))


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def seen(**changed: object) -> Observation:
    """Brokers 1 to 4; a-0 is led by 2, a-1 has a follower behind, a-2 is being reassigned, b-0 is dead, q is queued.

    The leader of d-0 has just died, and no election was held yet.
    """
    fields: dict[str, object] = {
        "kafka_cluster_id": "one",
        "active_controller": ActiveController(BrokerId(1), czxid=5, version=0),
        "controller_epoch": 3,
        "controller_epoch_version": 3,
        "brokers": {BrokerId(n): Broker(BrokerId(n)) for n in (1, 2, 3, 4)},
        "topics": {
            "a": TopicIdentity(9, 3),
            "b": TopicIdentity(10, 1),
            "d": TopicIdentity(12, 1),
            "q": TopicIdentity(11, 1),
        },
        "assignments": {
            A0: ReplicaAssignment(ids(1, 2)),
            A1: ReplicaAssignment(ids(2, 3)),
            A2: ReplicaAssignment(ids(3, 1), ids(3), ()),
            B0: ReplicaAssignment(ids(9, 8)),
            D0: ReplicaAssignment(ids(9, 1)),
            Q0: ReplicaAssignment(ids(1, 2)),
        },
        "states": {
            A0: LeaderAndIsr(BrokerId(2), 4, ids(2, 1)),
            A1: LeaderAndIsr(BrokerId(3), 0, ids(3)),
            A2: LeaderAndIsr(BrokerId(1), 0, ids(1)),
            B0: LeaderAndIsr(BrokerId(-1), 7, ids(9)),
            D0: LeaderAndIsr(BrokerId(9), 7, ids(9, 1)),
            Q0: LeaderAndIsr(BrokerId(1), 0, ids(1, 2)),
        },
        "queued_topics": frozenset({"q"}),
    }
    return Observation(**{**fields, **changed})  # type: ignore[arg-type]  # fields by name


def planned(made: Plan | Refused) -> Plan:
    assert isinstance(made, Plan), made
    return made


# ---------------------------------------------------------------------------------------------------- every kind


EXAMPLES = {
    PlanKind.ELECT_PREFERRED_LEADERS: lambda: elections_plan(seen(), ORIGIN, [A0]),
    PlanKind.REASSIGN_PARTITIONS: lambda: reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(1, 3))]]),
    PlanKind.DELETE_TOPICS: lambda: deletions_plan(seen(), ORIGIN, ["b"]),
    PlanKind.DRAIN_ISR_NOTIFICATIONS: lambda: drain_plan(
        seen(notifications=(Notification("isr_change_0000000001", (A0,), 0),)), ORIGIN, now_ms=3_600_000
    ),
    PlanKind.MOVE_LEADERS: lambda: leader_moves_plan(seen(), ORIGIN, [LeaderMove(*A0, BrokerId(1))]),
}


@pytest.mark.parametrize("kind", list(PlanKind))
def test_every_kind_has_a_record_that_fits_its_plans(kind):
    plan, record = planned(EXAMPLES[kind]()), kind_record(kind)
    assert plan.kind is kind
    assert record.step_timeout_s > 0
    (one, many), (row,) = record.unit, record.changes(plan.steps[0])
    assert plan_summary(plan).startswith(f"1 {one} in 1 step")
    assert one != many
    assert len(row) + 1 == len(record.headings)
    text = plan_markdown(plan)
    assert text.startswith(f"# {record.title} on `demo`")
    assert f"| {' | '.join(record.headings)} |" in text


# ---------------------------------------------------------------------------------------------------- elections


def test_an_election_expects_the_isr_and_wants_the_preferred_leader():
    plan = planned(elections_plan(seen(), ORIGIN, [A0], left_out=[LeftOut("a-1", "not in the ISR")]))
    assert plan.effects == (CreatePreferredReplicaElection.of((A0,)),)
    assert TopicCreatedAt(topic="a", czxid=9) in plan.steps[0].expectations
    assert AssignedTo(*A0, replicas=ids(1, 2)) in plan.steps[0].expectations
    assert InSync(*A0, leader=BrokerId(2), isr=ids(1, 2)) in plan.steps[0].expectations
    assert LedBy(*A0, leader=BrokerId(1)) in plan.steps[0].outcomes
    assert plan.predicted == ("a-0  leader 2 → 1, leader epoch 4 → 5, ISR [2, 1] stays",)
    assert plan.left_out == (LeftOut("a-1", "not in the ISR"),)


def test_the_most_urgent_elections_come_into_a_limited_plan():
    plan = planned(elections_plan(seen(), ORIGIN, [A1, A0, A1], election_count_max=1))
    assert plan.effects == (CreatePreferredReplicaElection.of((A1,)),)
    assert plan.left_out == (LeftOut("a-0", "over the limit of 1 election in one run"),)


def test_elections_are_asked_for_in_batches():
    plan = planned(elections_plan(seen(), ORIGIN, [A1, A0], partition_count_max=1))
    assert [len(step.effects) for step in plan.steps] == [1, 1]
    assert plan_summary(plan) == "2 elections in 2 steps"


def test_no_election_is_no_step():
    assert planned(elections_plan(seen(), ORIGIN, [])).steps == ()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda seen_: elections_plan(seen_, ORIGIN, [A0]), id="elections"),
        pytest.param(lambda seen_: reassignment_plan(seen_, ORIGIN, []), id="reassignment"),
        pytest.param(lambda seen_: deletions_plan(seen_, ORIGIN, []), id="deletions"),
        pytest.param(lambda seen_: drain_plan(seen_, ORIGIN, now_ms=0), id="drain"),
    ],
)
def test_where_nobody_rules_nothing_is_planned(make):
    made = make(seen(active_controller=None))
    assert isinstance(made, Refused)
    assert "an active controller" in str(made.reasons[0])


# ------------------------------------------------------------------------------------------------- reassignment


def test_a_move_is_planned_with_its_way_back():
    plan = planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(3, 1))], [Target(*A1, ids(2, 3))]]))
    assert plan.effects == (CreateReassignPartitions(targets=(Target(*A0, ids(3, 1)),)),)
    assert CaughtUp(*A0, replicas=ids(3, 1)) in plan.steps[0].outcomes
    assert TopicCreatedAt(topic="a", czxid=9) in plan.steps[0].expectations
    assert TopicCreatedAt(topic="a", czxid=9) in plan.rollback.steps[0].expectations
    assert plan.predicted == (
        "a-0  led by 2 in leader epoch 4, replicas [1, 2] → [3, 1], copies to [3], removes from [2], preferred leader 1 → 3",
    )
    assert plan.left_out == (LeftOut("a-1", "has these replicas already"),)
    back = plan.rollback.steps[0]
    assert back.effects == (CreateReassignPartitions(targets=(Target(*A0, ids(1, 2)),)),)
    assert AssignedTo(*A0, replicas=ids(3, 1)) in back.expectations


def test_a_new_order_copies_nothing():
    plan = planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(2, 1))]]))
    assert plan.predicted == ("a-0  led by 2 in leader epoch 4, replicas [1, 2] → [2, 1], preferred leader 1 → 2",)
    assert plan.risks[0].startswith("0 replicas are copied")


def test_the_approver_hears_of_a_new_replication_factor_and_of_followers_behind():
    wave = [Target(*A0, ids(1, 2, 3)), Target(*A1, ids(2, 4))]
    plan = planned(reassignment_plan(seen(), ORIGIN, [wave], may_change_replication_factor=True, remarks=["Proven."]))
    assert plan.risks == (
        "Proven.",
        "2 replicas are copied over the network, without a throttle, as fast as the brokers can: they compete with clients.",
        "The replication factor of 1 partition changes, a-0 first.",
        "1 partition is under-replicated now, a-1 first: such moves take longer.",
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        pytest.param(Target(*A0, ()), "it would delete the partition's data", id="an empty list"),
        pytest.param(Target(*A0, ids(1, 1)), "expected each broker once, found [1, 1]", id="a broker twice"),
        pytest.param(Target(*A0, ids(1, -1)), "expected registered brokers, found [-1]", id="a negative id"),
        pytest.param(Target(*A0, ids(1, 5)), "expected registered brokers, found [5]", id="an unknown broker"),
        pytest.param(Target("x", 0, ids(1)), "a partition of this cluster", id="an unknown partition"),
        pytest.param(Target(*A2, ids(1, 2)), "adding [3], removing []", id="one that is being reassigned"),
        pytest.param(Target(*Q0, ids(2, 3)), "one queued for deletion", id="a topic queued for deletion"),
        pytest.param(Target(*A0, ids(1, 2, 3)), "expected 2 replicas as now, found 3", id="another replication factor"),
        pytest.param(
            Target(*B0, ids(1, 2)), "expected a leader to copy from, found leader -1, ISR [9]", id="no leader"
        ),
        pytest.param(
            Target(*D0, ids(1, 2)), "expected a leader to copy from, found leader 9, ISR [9, 1]", id="a dead leader"
        ),
    ],
)
def test_a_target_that_kafka_would_take_without_a_check_is_refused(target, said):
    made = reassignment_plan(seen(), ORIGIN, [[target]])
    assert isinstance(made, Refused)
    assert said in " ".join(map(str, made.reasons))


def test_a_partition_without_state_has_nothing_to_copy_from():
    (reason,) = target_refusals(seen(states={}), [[Target(*A0, ids(1, 3))]], may_change_replication_factor=False)
    assert "found no state" in str(reason)


def test_two_targets_for_one_partition_in_one_wave_are_refused():
    wave = [Target(*A0, ids(1, 3)), Target(*A0, ids(1, 4))]
    (reason,) = target_refusals(seen(), [wave], may_change_replication_factor=False)
    assert "one target per partition and wave" in str(reason)


def test_a_partition_may_go_on_in_a_later_wave():
    waves = [[Target(*A0, ids(1, 3))], [Target(*A0, ids(4, 3))], [Target(*A0, ids(4, 3))]]
    plan = planned(reassignment_plan(seen(), ORIGIN, waves, why={A0: "it makes room"}))
    assert plan.predicted == (
        "a-0  led by 2 in leader epoch 4, replicas [1, 2] → [1, 3], copies to [3], removes from [2]; why: it makes room",
        "a-0  led by 2 in leader epoch 4, replicas [1, 3] → [4, 3], copies to [4], removes from [1], preferred leader 1 → 4; why: it makes room",
    )
    assert AssignedTo(*A0, replicas=ids(1, 3)) in plan.steps[1].expectations
    assert [step.effects[0].targets[0].replicas for step in plan.rollback.steps] == [(1, 3), (1, 2)]
    assert plan.risks[0].startswith("2 replicas are copied")


# ------------------------------------------------------------------------------------------------------- cancel


def test_what_the_controller_moves_goes_back_whoever_asked_for_it():
    plan = planned(cancel_plan(seen(), ORIGIN))
    (step,), (back,) = plan.steps, plan.rollback.steps
    assert step.effects == (CreateReassignPartitions(targets=(Target(*A2, ids(1)),)),)
    assert AssignedTo(*A2, replicas=ids(3, 1), adding=ids(3)) in step.expectations
    assert step.outcomes == (AssignedTo(*A2, replicas=ids(1)), CaughtUp(*A2, replicas=ids(1)))
    assert plan.predicted == ("a-2  led by 1 in leader epoch 0, adding [3], removing []: back to replicas [1]",)
    assert back.effects == (CreateReassignPartitions(targets=(Target(*A2, ids(3, 1)),)),)
    assert AssignedTo(*A2, replicas=ids(1)) in back.expectations
    assert len(plan.risks) == 1


def test_the_approver_hears_that_only_brokers_take_back_what_a_request_asks_for():
    plan = planned(cancel_plan(seen(reassign_requests={A2: ids(3, 1)}), ORIGIN))
    assert plan.risks[1].startswith("1 partition stands in /admin/reassign_partitions: only brokers that may be asked")


@pytest.mark.parametrize(
    ("partition", "lists", "why"),
    [
        pytest.param(Q0, ReplicaAssignment(ids(1, 2, 3), ids(3)), "one queued for deletion", id="queued"),
        pytest.param(B0, ReplicaAssignment(ids(9, 8, 1), ids(1)), "expected registered brokers, found [8, 9]", id="dead"),
    ],
)  # fmt: skip
def test_what_cannot_go_back_is_left_out_with_the_reason(partition, lists, why):
    plan = planned(cancel_plan(seen(assignments={**seen().assignments, partition: lists}), ORIGIN))
    assert [each.effects[0].targets for each in plan.steps] == [(Target(*A2, ids(1)),)]
    assert [each.subject for each in plan.left_out] == [str(partition)]
    assert why in plan.left_out[0].reason


def test_where_nothing_can_go_back_the_reasons_are_told():
    made = cancel_plan(seen(assignments={B0: ReplicaAssignment(ids(9, 8, 1), ids(1))}), ORIGIN)
    assert isinstance(made, Refused)
    assert "target of b-0: expected registered brokers, found [8, 9]" in str(made.reasons[0])


def test_where_nothing_is_moved_nothing_is_taken_back():
    quiet = {A0: ReplicaAssignment(ids(1, 2))}
    assert planned(cancel_plan(seen(assignments=quiet), ORIGIN)).steps == ()
    made = cancel_plan(seen(assignments=quiet, reassign_requests={A0: ids(3)}), ORIGIN)
    assert isinstance(made, Refused)
    assert "a request for 1 partition that adds or removes no replicas; Kafka up to 2.3" in str(made.reasons[0])


# ----------------------------------------------------------------------------------------------------- deletion


def test_a_deletion_is_of_exactly_this_topic():
    plan = planned(deletions_plan(seen(), ORIGIN, ["b", "q"], left_out=[LeftOut("x", "dead replica")]))
    assert plan.effects == (CreateDeleteTopic(topic="b"),)
    assert TopicIs(topic="b", czxid=10, partition_count=1) in plan.steps[0].expectations
    assert plan.predicted == ("b  1 partition, 2 replicas on brokers [8, 9] are deleted",)
    assert plan.left_out == (LeftOut("x", "dead replica"), LeftOut("q", "is queued for deletion already"))


@pytest.mark.parametrize(
    ("topic", "changed", "said"),
    [
        pytest.param("a", {}, "[a-2, which adds or removes replicas]: wait until it is done", id="by its lists"),
        pytest.param(
            "b", {"reassign_requests": {B0: ids(1)}}, "[b-0 in /admin/reassign_partitions]: wait", id="asked to move"
        ),
        pytest.param(
            "b", {"election_requests": frozenset({B0})}, "[b-0 in /admin/preferred_replica_election]: wait", id="election"
        ),
        pytest.param(
            "b", {"unreadable": {"/admin/reassign_partitions": "no JSON"}}, "cannot be read (no JSON): nobody knows which",
            id="a request that cannot be read",
        ),
    ],
)  # fmt: skip
def test_a_topic_that_somebody_works_on_is_left_out_of_a_deletion(topic, changed, said):
    plan = planned(deletions_plan(seen(**changed), ORIGIN, [topic]))
    assert plan.steps == ()
    assert plan.left_out[0].subject == topic
    assert said in plan.left_out[0].reason


def test_another_topics_reassignment_is_no_reason_against_a_deletion():
    asked = {"reassign_requests": {A0: ids(1)}, "election_requests": frozenset({A1})}
    assert planned(deletions_plan(seen(**asked), ORIGIN, ["b"])).effects == (CreateDeleteTopic(topic="b"),)


def test_deletions_are_asked_for_in_batches():
    topics = {f"t{n}": TopicIdentity(n, 1) for n in range(5)}
    plan = planned(deletions_plan(seen(topics=topics), ORIGIN, sorted(topics), topic_count_max=2))
    assert [len(step.effects) for step in plan.steps] == [2, 2, 1]


def test_kafkas_own_topics_are_never_deleted():
    topics = {"__consumer_offsets": TopicIdentity(1, 50)}
    made = deletions_plan(seen(topics=topics), ORIGIN, ["__consumer_offsets"])
    assert isinstance(made, Refused)
    assert "found one of Kafka's own" in str(made.reasons[0])


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        pytest.param("__share_group_state", "an internal topic of Kafka or its tools", id="Kafka"),
        pytest.param("_schemas", "the store of a Schema Registry", id="Schema Registry"),
        pytest.param("_confluent-metrics", "an internal topic of Confluent's platform", id="Confluent"),
        pytest.param("connect-offsets", "state of a Kafka Connect cluster", id="Connect, as its example names it"),
        pytest.param("eu.connect-cluster.status", "state of a Kafka Connect cluster", id="Connect, several clusters"),
        pytest.param("connect-sinks-configs", "state of a Kafka Connect cluster", id="Connect, named"),
        pytest.param("heartbeats", "an internal topic of MirrorMaker 2", id="heartbeats"),
        pytest.param("us.checkpoints.internal", "an internal topic of MirrorMaker 2", id="checkpoints"),
        pytest.param("mm2-offset-syncs.us.internal", "an internal topic of MirrorMaker 2", id="offset syncs"),
        pytest.param("app-store-changelog", "an internal topic of a Kafka Streams application", id="a changelog"),
        pytest.param("app-KSTREAM-KEY-0001-repartition", "an internal topic of a Kafka Streams application", id="a repartition"),
        pytest.param(
            "app-join-subscription-response-topic", "an internal topic of a Kafka Streams application", id="a foreign-key join"
        ),
        *(pytest.param(name, None, id=name) for name in ("orders", "connect", "disconnect-status", "us.orders", "changelog")),
    ],
)  # fmt: skip
def test_a_topic_that_a_program_made_for_itself_is_known_by_its_name(topic, owner):
    assert owner_of(topic) == owner


def test_what_a_program_made_for_itself_goes_only_by_an_explicit_word():
    topics = {"_schemas": TopicIdentity(1, 1)}
    kept = planned(deletions_plan(seen(topics=topics), ORIGIN, ["_schemas"]))
    assert kept.steps == ()
    assert kept.left_out[0].reason.startswith("is the store of a Schema Registry; where that program is gone for good")
    meant = planned(deletions_plan(seen(topics=topics), ORIGIN, ["_schemas"], even_if_used=True))
    assert meant.effects == (CreateDeleteTopic(topic="_schemas"),)
    assert meant.risks[-1] == "_schemas is the store of a Schema Registry."


def test_the_approver_reads_who_uses_a_topic():
    plan = planned(deletions_plan(seen(), ORIGIN, ["b"], evidence={"b": "7 bytes, groups: none"}))
    assert plan.predicted == ("b  1 partition, 2 replicas on brokers [8, 9] are deleted; 7 bytes, groups: none",)


def test_an_unknown_topic_is_refused_by_name():
    made = deletions_plan(seen(), ORIGIN, ["x"])
    assert isinstance(made, Refused)
    assert "topic x: expected a topic of this cluster" in str(made.reasons[0])


# -------------------------------------------------------------------------------------------------------- drain

OLD, NEW = Notification("isr_change_0000000001", (A0, A1), 0), Notification("isr_change_0000000002", (A1,), 59_999)


def test_a_lingering_notification_calls_for_a_new_controller():
    plan = planned(drain_plan(seen(notifications=(NEW, OLD)), ORIGIN, now_ms=60_000))
    assert plan.effects == (DeleteController(controller_id=BrokerId(1), version=0, epoch_version=3),)
    assert plan.steps[0].outcomes[1:] == (
        NotificationsGone(names=(OLD.name,)), StateReadable(*A0), StateReadable(*A1),
    )  # fmt: skip
    assert plan.left_out == (LeftOut(NEW.name, "younger than 60 s"),)
    assert plan.predicted[1] == "/controller_epoch  3 → at least 4"


GONE = TopicPartition("gone", 0)
REASSIGN = "/admin/reassign_partitions"


def test_a_request_that_names_only_what_is_gone_calls_for_a_new_controller():
    plan = planned(drain_plan(seen(reassign_requests={GONE: ids(1)}), ORIGIN, now_ms=0))
    assert plan.effects == (DeleteController(controller_id=BrokerId(1), version=0, epoch_version=3),)
    assert plan.steps[0].expectations[1:] == (RequestAbandoned(path=REASSIGN),)
    assert plan.steps[0].outcomes[1:] == (RequestAbsent(path=REASSIGN),)
    assert plan.predicted[2:] == (f"{REASSIGN}  names only gone-0, gone: 1 in all; the new controller removes it",)


def test_a_request_is_cleared_on_kafka_1_0_too_and_its_notifications_stay():
    both = seen(reassign_requests={GONE: ids(1)}, notifications=(OLD,))
    plan = planned(drain_plan(both, ORIGIN, now_ms=60_000, failover_deletes_notifications=False))
    assert plan.steps[0].expectations[1:] == (RequestAbandoned(path=REASSIGN),)
    assert plan.left_out == (LeftOut(OLD.name, "a new controller of Kafka 1.0 or older does not take it"),)


ELECTION = "/admin/preferred_replica_election"
IDLE = {
    "request_identities": {path: RequestIdentity(czxid, 0) for path, czxid in ((REASSIGN, 21), (ELECTION, 22))},
    "topic_json_versions": frozenset({1, 2}),
}


def test_requests_that_the_controller_has_not_begun_call_for_a_new_one():
    asked = {"reassign_requests": {A0: ids(3)}, "election_requests": frozenset({A1})}
    plan = planned(drain_plan(seen(**asked, **IDLE), ORIGIN, now_ms=60_000))
    idle = (RequestIdle(path=REASSIGN, czxid=21), RequestIdle(path=ELECTION, czxid=22))
    assert plan.steps[0].expectations[1:] == idle
    assert plan.steps[0].outcomes[1:] == (RequestAbsent(path=ELECTION),)
    assert plan.predicted[2:] == (
        f"{REASSIGN}  asks for a-0, not begun: 1 in all; the new controller takes it up",
        f"{ELECTION}  asks for a-1, not begun: 1 in all; the new controller takes it up",
    )


@pytest.mark.parametrize(
    ("changed", "now_ms"),
    [
        pytest.param({"election_requests": frozenset({A1})}, 59_999, id="an election of just now"),
        pytest.param({"reassign_requests": {A2: ids(3)}}, 60_000, id="a reassignment that is begun"),
        pytest.param({"reassign_requests": {A0: ids(3), A2: ids(3)}}, 60_000, id="begun in part"),
        pytest.param(
            {"reassign_requests": {A0: ids(3)}, "topic_json_versions": frozenset({1})}, 60_000, id="Kafka 2.3 does not show it"
        ),
    ],
)  # fmt: skip
def test_a_request_that_the_controller_may_work_at_is_left_to_it(changed, now_ms):
    assert planned(drain_plan(seen(**{**IDLE, **changed}), ORIGIN, now_ms=now_ms)).steps == ()


@pytest.mark.parametrize(
    ("now_ms", "lingering"),
    [pytest.param(59_999, (), id="a moment too young"), pytest.param(60_000, (OLD,), id="exactly old enough")],
)
def test_a_notification_lingers_from_an_age_on(now_ms, lingering):
    assert lingering_notifications(seen(notifications=(OLD, NEW)), now_ms=now_ms) == lingering


def test_fresh_notifications_are_the_controllers_business():
    assert planned(drain_plan(seen(notifications=(NEW,)), ORIGIN, now_ms=60_000)).steps == ()


def test_up_to_kafka_1_0_a_re_election_drains_nothing():
    made = drain_plan(seen(notifications=(OLD,)), ORIGIN, now_ms=60_000, failover_deletes_notifications=False)
    assert isinstance(made, Refused)
    assert "expected Kafka 1.1 or newer" in str(made.reasons[0])


@pytest.mark.parametrize(
    ("versions", "never"),
    [
        pytest.param({1: 5, 2: 5}, True, id="all speak 2.7"),
        pytest.param({1: 5, 2: 4}, False, id="one speaks less"),
        pytest.param({}, False, id="nobody is there"),
    ],
)
def test_from_protocol_2_7_on_no_notifications_are_written(versions, never):
    assert makes_no_notifications(seen(broker_json_versions=versions)) is never


# --------------------------------------------------------------------------------------------- what people read


def test_a_plan_in_words_names_before_and_after():
    text = plan_markdown(planned(elections_plan(seen(), ORIGIN, [A0], left_out=[LeftOut("a-1", "lags")])))
    assert "# Elect preferred leaders on `demo`\n\n1 election in 1 step, 1 left out.\n" in text
    assert "| 1 | `a-0` | `2` | `1` | `1, 2` |" in text
    assert "* `a-1: lags`" in text
    assert "made from | `s3://b/v1/manifest.json`" in text


@pytest.mark.parametrize(
    ("made", "row", "size"),
    [
        pytest.param(
            reassignment_plan(seen(), Origin("demo"), [[Target(*A0, ids(3, 1))]]), "| 1 | `a-0` | `1, 2` | `3, 1` |", 1, id="moves"
        ),
        pytest.param(deletions_plan(seen(), Origin("demo"), ["b"]), "| 1 | `b` | `1` | `0xa` |", 1, id="deletions"),
        pytest.param(
            drain_plan(seen(notifications=(OLD,)), Origin("demo"), now_ms=60_000), "| 1 | `delete   /controller  of broker 1", 1,
            id="drain",
        ),
    ],
)  # fmt: skip
def test_each_kind_has_its_table(made, row, size):
    text = plan_markdown(planned(made))
    assert row in text
    assert "made from | a live read" in text
    assert plan_size(planned(made)) == size


def _moved(count: int) -> Observation:
    """So many topics of one partition, on the brokers 1 and 2."""
    names = [TopicPartition(f"t{n}", 0) for n in range(count)]
    return seen(
        topics={each.topic: TopicIdentity(9, 1) for each in names},
        assignments=dict.fromkeys(names, ReplicaAssignment(ids(1, 2))),
        states=dict.fromkeys(names, LeaderAndIsr(BrokerId(2), 4, ids(2, 1))),
    )


def test_long_tables_are_cut_and_say_how_many_of_what_are_not_shown():
    observed = _moved(5)
    text = plan_markdown(planned(elections_plan(observed, ORIGIN, list(observed.assignments))), rows_max=2)
    assert "* `/admin/preferred_replica_election`: 5 elections\n" in text
    assert "**3 of 5 elections are not shown here**" in text
    assert "… 3 of 5 predictions are not shown here" in text
    assert "… 4 of 6 lines of this step are not shown here" in text


def test_what_is_deleted_is_listed_in_full():
    topics = {f"t{n}": TopicIdentity(n, 1) for n in range(5)}
    plan = planned(deletions_plan(seen(topics=topics), ORIGIN, sorted(topics), topic_count_max=2))
    text = plan_markdown(plan, rows_max=1)
    assert "5 **topics DELETED with their data**" in text
    assert text.count("create   /admin/delete_topics/t") == text.count("| `t") == 5
    assert "not shown" not in text


def test_of_many_steps_the_first_requests_are_shown():
    observed = _moved(5)
    plan = planned(elections_plan(observed, ORIGIN, list(observed.assignments), partition_count_max=1))
    text = plan_markdown(plan, rows_max=3)
    assert "Step 2" in text
    assert "3 more steps are in the stored plan." in text
    assert "Step 3" not in text
