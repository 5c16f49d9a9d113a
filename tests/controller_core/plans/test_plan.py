"""Plans, their conditions and their requests as documents: what is read back, what is refused, what is checked."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from controller_core.model.errors import InvalidPlanError, PlanAlteredError
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.checks import check
from controller_core.plans.conditions import (
    AssignedTo,
    BrokersRegistered,
    CaughtUp,
    Condition,
    ControllerIs,
    ElectedAfter,
    HasLiveLeader,
    InSync,
    KafkaClusterIs,
    LedBy,
    NotificationsGone,
    NotificationsLinger,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    StateReadable,
    TopicCreatedAt,
    TopicGone,
    TopicIs,
    TopicNotInElection,
    TopicNotQueued,
    TopicNotReassigned,
    ZooKeeperControllerRules,
    named_partitions,
    named_topics,
    subject,
)
from controller_core.plans.document import canonical, decoded, encoded
from controller_core.plans.observation import (
    ActiveController,
    Notification,
    Observation,
    RequestIdentity,
    TopicIdentity,
)
from controller_core.plans.plan import (
    Plan,
    PlanKind,
    PlanStep,
    Rollback,
    SnapshotReference,
    check_expectations,
    final_outcomes,
    plan_digest,
    plan_from_bytes,
    plan_to_bytes,
    rollback_plan,
)
from controller_core.plans.request_znodes import (
    REQUEST_BYTES_MAX,
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    Request,
    Target,
    election_batches,
    may_be_asked_twice,
    render_request,
    request_data,
    request_path,
    target_batches,
)

A0, A1, Q0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("q", 0)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


# ----------------------------------------------------------------------------------------------------- requests

REQUESTS = [
    pytest.param(
        CreateReassignPartitions(targets=(Target(*A0, ids(3, 2)), Target(*A1, ids(1)))),
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2]},'
        b'{"topic":"a","partition":1,"replicas":[1]}]}',
        "create   /admin/reassign_partitions  if absent, 2 partitions\n"
        "         a-0  replicas=3,2\n"
        "         a-1  replicas=1",
        id="reassignment",
    ),
    pytest.param(
        CreatePreferredReplicaElection.of((A0, A1)),
        "/admin/preferred_replica_election",
        b'{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"a","partition":1}]}',
        "create   /admin/preferred_replica_election  if absent, 2 partitions\n         a-0\n         a-1",
        id="preferred election",
    ),
    pytest.param(
        CreateDeleteTopic(topic="a"),
        "/admin/delete_topics/a",
        b"",
        "create   /admin/delete_topics/a  if absent",
        id="deletion",
    ),
    pytest.param(
        DeleteController(controller_id=BrokerId(1), version=0, epoch_version=7),
        "/controller",
        b"",
        "delete   /controller  of broker 1, if version=0 and /controller_epoch is at version=7",
        id="forced re-election",
    ),
]


@pytest.mark.parametrize(("request_", "path", "data", "text"), REQUESTS)
def test_a_request_is_what_kafkas_tools_write(request_, path, data, text):
    assert (request_path(request_), request_data(request_), render_request(request_)) == (path, data, text)


@pytest.mark.parametrize(("request_", "path", "data", "text"), REQUESTS)
def test_a_request_survives_json(request_, path, data, text):
    document = json.loads(encoded(request_))
    assert document["effect"] == type(request_).__name__
    assert decoded(json.dumps(document).encode(), Request, "effect") == request_


@pytest.mark.parametrize("cut", [election_batches, target_batches], ids=["elections", "targets"])
def test_batches_keep_order_and_count(cut):
    rows = [A0, A1, TopicPartition("b", 0)]
    given = rows if cut is election_batches else [Target(*row, ids(1, 2)) for row in rows]
    assert list(cut(given, partition_count_max=2)) == [tuple(given[:2]), tuple(given[2:])]
    assert list(cut([], partition_count_max=2)) == []


@pytest.mark.parametrize("kind", [CreatePreferredReplicaElection, CreateReassignPartitions])
def test_no_batch_is_larger_than_a_znode_may_be(kind):
    rows = [TopicPartition("é" * 120, number) for number in range(7000)]
    if kind is CreatePreferredReplicaElection:
        requests = [kind.of(batch) for batch in election_batches(rows, partition_count_max=10_000)]
    else:
        targets = [Target(*row, ids(1, 2, 3)) for row in rows]
        requests = [kind(targets=batch) for batch in target_batches(targets, partition_count_max=10_000)]
    sizes = [len(request_data(request)) for request in requests]
    assert len(sizes) > 1
    assert max(sizes) <= REQUEST_BYTES_MAX
    assert sizes[0] > REQUEST_BYTES_MAX - 1000


# --------------------------------------------------------------------------------------------------- conditions

SEEN = Observation(
    kafka_cluster_id="one",
    active_controller=ActiveController(BrokerId(1), czxid=5, version=0),
    controller_epoch=3,
    controller_epoch_version=3,
    brokers={BrokerId(n): Broker(BrokerId(n)) for n in (1, 2, 3)},
    topics={"a": TopicIdentity(9, 2), "q": TopicIdentity(10, 1)},
    assignments={A0: ReplicaAssignment(ids(1, 2)), A1: ReplicaAssignment(ids(3, 2, 1), ids(3), ids(1))},
    states={A0: LeaderAndIsr(BrokerId(2), 4, ids(2, 1)), Q0: LeaderAndIsr(BrokerId(4), 0, ids(4, 1))},
    reassign_requests={A0: ids(3, 4)},
    election_requests=frozenset({Q0}),
    queued_topics=frozenset({"q"}),
    pending={"/admin/reassign_partitions": "other"},
    request_identities={
        "/admin/preferred_replica_election": RequestIdentity(7, 0),
        "/admin/reassign_partitions": RequestIdentity(8, 0),
    },
    notifications=(Notification("isr_change_0000000001", (A0,), 0),),
)
NAMES = tuple(f"isr_change_{n:010d}" for n in range(12))

CONDITIONS = [
    (KafkaClusterIs(cluster_id="one"), None),
    (KafkaClusterIs(cluster_id="two"), "/cluster/id: expected 'two', found 'one'; this is another cluster"),
    (ZooKeeperControllerRules(), None),
    (ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=3, epoch_version=3), None),
    (ControllerIs(controller_id=BrokerId(1), czxid=6, epoch=3, epoch_version=3), "broker 1 since zxid 0x5, epoch 3"),
    (ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=2, epoch_version=3), "another controller was elected"),
    (ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=3, epoch_version=2), "another controller was elected"),
    (ElectedAfter(epoch=2), None),
    (ElectedAfter(epoch=3), "/controller_epoch: expected more than 3, found 3"),
    (BrokersRegistered(brokers=ids(3, 1)), None),
    (BrokersRegistered(brokers=ids(1, 4)), "/brokers/ids: expected brokers [1, 4], found no broker [4]"),
    (RequestAbsent(path="/admin/preferred_replica_election"), None),
    (RequestAbsent(path="/admin/reassign_partitions"), "/admin/reassign_partitions: expected no znode, found other"),
    (RequestAbandoned(path="/admin/reassign_partitions"), "a request that names only partitions that are gone, found other"),
    (RequestAbandoned(path="/admin/preferred_replica_election"), None),
    (RequestIdle(path="/admin/preferred_replica_election", czxid=6), "expected the request created at zxid 0x6, not begun, found no znode"),
    (RequestIdle(path="/admin/reassign_partitions", czxid=8), None),
    (TopicIs(topic="a", czxid=9, partition_count=2), None),
    (TopicIs(topic="a", czxid=8, partition_count=2), "found one created at zxid 0x9 with 2 partitions"),
    (TopicIs(topic="a", czxid=9, partition_count=1), "found one created at zxid 0x9 with 2 partitions"),
    (TopicIs(topic="b", czxid=9, partition_count=1), "found no such topic"),
    (TopicGone(topic="b", czxid=9), None),
    (TopicGone(topic="a", czxid=8), None),
    (TopicGone(topic="a", czxid=9), "topic a: expected no such topic, found the topic, not queued for deletion; nobody asked"),
    (TopicGone(topic="q", czxid=10), "found the topic, queued for deletion"),
    (TopicNotQueued(topic="a"), None),
    (TopicNotQueued(topic="q"), "topic q: expected no request to delete it"),
    (TopicCreatedAt(topic="a", czxid=9), None),
    (TopicCreatedAt(topic="a", czxid=8), "topic a: expected the topic created at zxid 0x8, found one created at zxid 0x9"),
    (TopicCreatedAt(topic="b", czxid=9), "found no such topic"),
    (TopicNotReassigned(topic="q"), None),
    (TopicNotReassigned(topic="b"), "topic b: expected a topic that can be read, found none"),
    (
        TopicNotReassigned(topic="a"),
        "no reassignment of it, found [a-1, which adds or removes replicas, a-0 in /admin/reassign_partitions]; wait until",
    ),
    (TopicNotInElection(topic="a"), None),
    (TopicNotInElection(topic="q"), "found [q-0 in /admin/preferred_replica_election]; wait until it is done"),
    (HasLiveLeader(*A0), None),
    (HasLiveLeader(*A1), "a-1: expected a leader and an ISR, found no state"),
    (HasLiveLeader(*Q0), "q-0: expected a leader that is registered, found leader 4, ISR [4, 1]; bring a broker"),
    (AssignedTo(*A0, replicas=ids(1, 2)), None),
    (AssignedTo(*A0, replicas=ids(2, 1)), "a-0: expected replicas [2, 1], not being reassigned, found replicas [1, 2]"),
    (AssignedTo(*A1, replicas=ids(3, 2, 1)), "found a reassignment: adding [3], removing [1]"),
    (AssignedTo(*A1, replicas=ids(3, 2, 1), adding=ids(3), removing=ids(1)), None),
    (
        AssignedTo(*A0, replicas=ids(1, 2), adding=ids(2)),
        "a-0: expected replicas [1, 2], a reassignment: adding [2], removing [], found replicas [1, 2]",
    ),
    (AssignedTo(*TopicPartition("b", 0), replicas=ids(1)), "found no such partition"),
    (InSync(*A0, leader=BrokerId(2), isr=ids(1, 2)), None),
    (InSync(*A0, leader=BrokerId(1), isr=ids(1, 2)), "a-0: expected leader 1, ISR [1, 2], found leader 2"),
    (InSync(*A0, leader=BrokerId(2), isr=ids(2)), "found leader 2, ISR [2, 1]"),
    (InSync(*A1, leader=BrokerId(2), isr=ids(2)), "found no state"),
    (CaughtUp(*A0, replicas=ids(1)), None),
    (CaughtUp(*A0, replicas=ids(1, 3)), "a-0: expected [1, 3] in the ISR, found ISR [2, 1]"),
    (LedBy(*A0, leader=BrokerId(2)), None),
    (LedBy(*A0, leader=BrokerId(1)), "a-0: expected leader 1, found leader 2"),
    (StateReadable(*A0), None),
    (StateReadable(*TopicPartition("gone", 0)), None),
    (StateReadable(*A1), "a-1: expected a readable state, found none"),
    (NotificationsLinger(names=NAMES), None),
    (NotificationsLinger(names=("isr_change_0000000009",)), "found none; the controller has drained them"),
    (NotificationsGone(names=("isr_change_0000000009",)), None),
    (NotificationsGone(names=NAMES), "found [isr_change_0000000001]"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "wrong"), CONDITIONS)
def test_a_condition_holds_or_says_what_is_wrong(condition: Condition, wrong: str | None):
    found = check(condition, SEEN)
    if wrong is None:
        assert found is None
    else:
        assert wrong in str(found)
        assert found is not None
        assert found.subject.startswith(subject(condition))


@pytest.mark.parametrize("condition", [row[0] for row in CONDITIONS])
def test_a_condition_survives_json(condition: Condition):
    document = json.loads(encoded(condition))
    assert document["condition"] == type(condition).__name__
    assert decoded(json.dumps(document).encode(), Condition, "condition") == condition


@pytest.mark.parametrize(
    ("active_controller", "migration", "wrong"),
    [
        pytest.param(None, None, "found no znode", id="nobody"),
        pytest.param(ActiveController(BrokerId(9), 5, 0), None, "id 9, which is not registered", id="a ghost"),
        pytest.param(ActiveController(BrokerId(1), 5, 0, kraft_epoch=0), None, "kraftControllerEpoch 0", id="KRaft"),
        pytest.param(ActiveController(BrokerId(1), 5, 0, is_ephemeral=False), None, "not ephemeral", id="claimed"),
        pytest.param(ActiveController(BrokerId(1), 5, 0), "{}", "/migration exists", id="a prepared migration"),
    ],
)
@pytest.mark.parametrize("condition", [ZooKeeperControllerRules(), ElectedAfter(epoch=0)])
def test_without_a_zookeeper_controller_nothing_may_be_asked(condition, active_controller, migration, wrong):
    seen = Observation(
        active_controller=active_controller, migration=migration, brokers=SEEN.brokers, controller_epoch=3
    )
    assert wrong in str(check(condition, seen))


@pytest.mark.parametrize("condition", [TopicNotReassigned(topic="q"), TopicNotInElection(topic="a")])
def test_a_request_that_cannot_be_read_may_name_any_topic(condition):
    requests = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
    seen = replace(SEEN, unreadable=dict.fromkeys(requests, "no JSON"))
    assert "which cannot be read (no JSON); nobody knows which topics it names" in str(check(condition, seen))


def test_a_request_that_names_only_what_is_gone_is_told_from_one_that_is_pending():
    path = "/admin/reassign_partitions"
    gone = replace(SEEN, reassign_requests={TopicPartition("gone", 0): ids(1)}, election_requests=frozenset())
    assert gone.abandoned_requests == {path: (TopicPartition("gone", 0),)}
    assert check(RequestAbandoned(path=path), gone) is None
    assert "clear it by a forced re-election (plan drain)" in str(check(RequestAbsent(path=path), gone))
    election = RequestAbandoned(path="/admin/preferred_replica_election")
    assert "found no znode; nothing to do any more" in str(check(election, gone))
    both = replace(gone, reassign_requests={**gone.reassign_requests, A0: ids(1)})
    assert both.abandoned_requests == {}
    assert "let the controller finish it" in str(check(RequestAbsent(path=path), both))


def test_a_request_is_idle_as_long_as_it_is_the_same_and_nothing_of_it_is_begun():
    path = "/admin/reassign_partitions"
    assert check(RequestIdle(path=path, czxid=8), SEEN) is None
    assert check(RequestIdle(path=path, czxid=9), SEEN) is not None
    begun = replace(SEEN, reassign_requests={A0: ids(3), A1: ids(3, 2)})
    assert "the controller has taken it up" in str(check(RequestIdle(path=path, czxid=8), begun))


def test_nobody_in_office_is_another_controller():
    condition = ControllerIs(controller_id=BrokerId(1), czxid=5, epoch=3, epoch_version=3)
    assert "found no znode" in str(check(condition, Observation()))


def test_long_lists_are_cut_and_counted():
    condition = NotificationsLinger(names=NAMES)
    assert "isr_change_0000000009, … 12 in all]" in str(check(condition, Observation()))


# -------------------------------------------------------------------------------------------------------- plans


def move(partition: TopicPartition, before: tuple[BrokerId, ...], after: tuple[BrokerId, ...]) -> PlanStep:
    absent = RequestAbsent(path="/admin/reassign_partitions")
    return PlanStep(
        effects=(CreateReassignPartitions(targets=(Target(*partition, after),)),),
        expectations=(absent, AssignedTo(*partition, replicas=before)),
        outcomes=(absent, AssignedTo(*partition, replicas=after)),
    )


PLAN = Plan(
    kind=PlanKind.REASSIGN_PARTITIONS,
    cluster="demo",
    kafka_cluster_id="one",
    snapshot=SnapshotReference("s3://b/v1/manifest.json", "f" * 64),
    expectations=(KafkaClusterIs(cluster_id="one"), ZooKeeperControllerRules()),
    steps=(move(A0, ids(1, 2), ids(2, 1)), move(A0, ids(2, 1), ids(2, 3))),
    predicted=("a-0  replicas [1, 2] → [2, 3]",),
    rollback=Rollback(text="back", steps=(move(A0, ids(2, 3), ids(1, 2)),)),
)


def test_a_plan_survives_its_document():
    assert plan_from_bytes(plan_to_bytes(PLAN), where="p.json") == PLAN


def test_a_plan_from_a_live_read_survives_too():
    live = Plan(
        kind=PlanKind.DELETE_TOPICS, cluster="c", kafka_cluster_id=None, snapshot=None, expectations=(), steps=(),
        predicted=(), rollback=Rollback(text="none"),
    )  # fmt: skip
    assert plan_from_bytes(plan_to_bytes(live), where="p.json") == live
    assert (rollback_plan(live), live.effects) == (None, ())


def test_the_digest_is_that_of_the_canonical_document():
    document = json.loads(plan_to_bytes(PLAN))
    assert document.pop("digest") == plan_digest(PLAN)
    assert plan_to_bytes(PLAN) == canonical({**document, "digest": plan_digest(PLAN)})


def test_the_version_that_made_a_plan_stands_beside_its_digest():
    data = plan_to_bytes(PLAN, code_version="0.2.0")
    assert json.loads(data) == {**json.loads(plan_to_bytes(PLAN)), "code_version": "0.2.0"}
    assert plan_from_bytes(data, where="p.json") == PLAN


def changed(**fields: object) -> bytes:
    """The document with other fields and the digest that belongs to it."""
    document = {**json.loads(plan_to_bytes(PLAN)), **fields}
    document.pop("digest")
    import hashlib

    return canonical({**document, "digest": hashlib.sha256(canonical(document)).hexdigest()})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"", "is no JSON document", id="empty"),
        pytest.param(b"\xff", "is no JSON document", id="not text"),
        pytest.param(b"[]", "Expected `object`, got `array`", id="a list"),
        pytest.param(b"{}", "schema_version: expected 1, found None", id="no version"),
        pytest.param(changed(schema_version=2), "expected 1, found 2", id="a later version"),
        pytest.param(
            changed(kind="format_disks"), "Invalid enum value 'format_disks' - at `$.kind`", id="another kind"
        ),
        pytest.param(changed(cluster=1), "Expected `str`, got `int` - at `$.cluster`", id="a number for a name"),
        pytest.param(changed(steps={}), "Expected `array`, got `object` - at `$.steps`", id="an object for an array"),
        pytest.param(changed(predicted=[1]), "Expected `str`, got `int` - at `$.predicted[0]`", id="a number for text"),
        pytest.param(
            changed(expectations=[{"condition": "No"}]),
            "Invalid value 'No' - at `$.expectations[0].condition`",
            id="condition",
        ),
        pytest.param(
            changed(steps=[{"effects": [{"effect": "Set"}], "expectations": [], "outcomes": []}]),
            "Invalid value 'Set' - at `$.steps[0].effects[0].effect`",
            id="effect",
        ),
        pytest.param(
            changed(expectations=[{"condition": "BrokersRegistered", "brokers": [True]}]),
            "Expected `int`, got `bool` - at `$.expectations[0].brokers[0]`",
            id="true is no broker",
        ),
        pytest.param(
            changed(expectations=[{"condition": "RequestAbsent", "path": "/a", "also": 1}]),
            "unknown field `also` - at `$.expectations[0]`; make the plan again",
            id="a field too many",
        ),
        pytest.param(
            changed(expectations=[{"condition": "LedBy", "topic": "a", "leader": 1}]),
            "missing required field `partition` - at `$.expectations[0]`",
            id="a field too few",
        ),
        pytest.param(
            changed(
                expectations=[{"condition": "AssignedTo", "topic": "a", "partition": 0, "replicas": [1], "adding": []}]
            ),
            "none that is as by default",
            id="a default that is written",
        ),
        pytest.param(
            changed(rules={"on_difference": "perhaps", "before_step": "stop"}),
            "'perhaps' - at `$.rules.on_difference`",
            id="no rule",
        ),
        pytest.param(
            changed(rules={"on_difference": "stop", "before_step": "stop", "step_pause_s": -1}),
            "p.json.rules: step_pause_s is 0 or more seconds, not -1",
            id="a pause below 0",
        ),
        pytest.param(
            changed(rules={"on_difference": "stop", "before_step": "stop", "throttle_bytes_per_s": 0}),
            "p.json.rules: a throttle is bytes per second above 0",
            id="a throttle of nothing",
        ),
        pytest.param(b"[" * 100_000, "plan not read: p.json", id="too deep"),
        pytest.param(
            plan_to_bytes(PLAN).replace(b'"demo"', b'"\\ud800"'), "is no JSON document", id="half a character"
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_the_place(data, said):
    with pytest.raises(InvalidPlanError) as refused:
        plan_from_bytes(data, where="p.json")
    assert said in str(refused.value)


def test_an_altered_plan_names_both_digests():
    data = plan_to_bytes(PLAN).replace(b'"demo"', b'"prod"')
    with pytest.raises(PlanAlteredError, match=f"plan p.json was altered: it names digest {plan_digest(PLAN)[:12]}"):
        plan_from_bytes(data, where="p.json")


def test_a_document_that_is_spelt_in_another_way_is_the_same_plan():
    document = json.loads(plan_to_bytes(PLAN, code_version="0.2"))
    assert plan_from_bytes(json.dumps(document, indent=1).encode(), where="p.json") == PLAN


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b'"cluster":"demo",', b'"cluster":"demo","confirmed":true,', id="beside-the-cluster"),
        pytest.param(b'"code_version":"0.2",', b'"code_version":"0.2","confirmed":true,', id="beside-the-version"),
        pytest.param(b'"code_version":"0.2",', b'"code_version":"0.2","x":"\\",', id="behind-a-backslash"),
        pytest.param(b'"schema_version"', b'"digest":"' + b"0" * 64 + b'","schema_version"', id="a-second-digest"),
    ],
)
def test_what_is_put_beside_the_digest_of_a_stored_document_is_refused(old, new):
    stored = plan_to_bytes(PLAN, code_version="0.2")
    altered = stored.replace(old, new, 1)
    assert altered != stored
    with pytest.raises(InvalidPlanError):
        plan_from_bytes(altered, where="p.json")


def test_documents_are_spelt_as_canonical_json():
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    value = {"b": [every, 0, -(2**63), 2**70], "a": {"Z": None, "a": True, "é": False}}
    assert encoded(value) == canonical(value)


def test_what_an_earlier_step_changes_is_not_expected_at_the_start():
    seen = Observation(
        kafka_cluster_id="one", active_controller=SEEN.active_controller, brokers=SEEN.brokers,
        assignments={A0: ReplicaAssignment(ids(1, 2))}, states=SEEN.states,
    )  # fmt: skip
    assert check_expectations(PLAN, seen) == ()
    assert [each.subject for each in check_expectations(PLAN, seen, first_step=1)] == ["a-0"]


def test_of_what_two_steps_change_the_last_outcome_counts_and_no_request():
    assert final_outcomes(PLAN) == (AssignedTo(*A0, replicas=ids(2, 3)),)


def test_a_rollback_is_a_plan_of_its_own_that_names_the_first():
    back = rollback_plan(PLAN)
    assert back is not None
    assert (back.steps, back.rollback.steps) == (PLAN.rollback.steps, ())
    assert back.predicted == ("a-0  replicas [2, 3] → [1, 2]",)
    assert plan_digest(PLAN)[:12] in back.risks[0]


def test_a_rollback_needs_the_brokers_it_goes_back_to():
    forward = structs.replace(PLAN, expectations=(*PLAN.expectations, BrokersRegistered(brokers=ids(2, 3))))
    back = rollback_plan(forward)
    assert back is not None
    assert back.expectations == (*PLAN.expectations, BrokersRegistered(brokers=ids(1, 2)))


def test_a_plan_of_an_older_version_is_checked_for_what_its_requests_need():
    partition = TopicPartition("t", 0)
    effects = (
        CreateDeleteTopic(topic="u"),
        CreateReassignPartitions(targets=(Target(*partition, ids(1)),)),
        CreatePreferredReplicaElection.of((A1,)),
        DeleteController(controller_id=BrokerId(1), version=0, epoch_version=1),
    )
    old = PlanStep(effects=effects, expectations=(TopicNotQueued(topic="u"),), outcomes=())
    assert set(old.checks) == {
        *(TopicNotQueued(topic=name) for name in ("u", "t", "a")),
        *(TopicNotReassigned(topic="u"), TopicNotInElection(topic="u")),
        *(HasLiveLeader(*each) for each in (partition, A1)),
    }
    assert len(old.checks) == 7  # no condition twice
    assert old.conditions == old.checks


def test_a_plan_knows_what_it_is_about():
    step = PlanStep(
        effects=(CreateDeleteTopic(topic="t"),),
        expectations=(TopicNotQueued(topic="t"),),
        outcomes=(LedBy(*A1, leader=BrokerId(1)),),
    )
    plan = Plan(
        kind=PlanKind.DELETE_TOPICS, cluster="c", kafka_cluster_id=None, snapshot=None, expectations=(), steps=(step,),
        predicted=(), rollback=Rollback(text="none"),
    )  # fmt: skip
    assert (named_partitions(plan.conditions), named_topics(plan.conditions)) == ({A1}, {"t"})


@pytest.mark.parametrize(
    ("request_", "again"),
    [
        pytest.param(CreateReassignPartitions(targets=()), False, id="a reassignment may have been cancelled"),
        pytest.param(CreateDeleteTopic(topic="t"), False, id="a deletion may have been withdrawn"),
        pytest.param(CreatePreferredReplicaElection.of(()), True, id="an election was an attempt"),
        pytest.param(
            DeleteController(controller_id=BrokerId(1), version=0, epoch_version=1), True, id="a controller is named"
        ),
    ],
)
def test_only_what_nobody_can_have_withdrawn_is_asked_twice(request_, again):
    assert may_be_asked_twice(request_) is again
