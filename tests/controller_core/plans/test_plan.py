"""Plans as documents: what is read back, what is refused."""

import json

import pytest
from msgspec import structs

from controller_core.model.errors import InvalidPlanError, PlanAlteredError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import (
    AssignedTo,
    BrokerInRack,
    BrokersRegistered,
    HasLiveLeader,
    KafkaClusterIs,
    LedBy,
    RequestAbsent,
    TopicNotInElection,
    TopicNotQueued,
    TopicNotReassigned,
    ZooKeeperControllerRules,
    named_partitions,
    named_topics,
)
from controller_core.plans.document import canonical, encoded
from controller_core.plans.observation import Observation
from controller_core.plans.plan import (
    Plan,
    PlanKind,
    PlanStep,
    Rollback,
    SnapshotReference,
    final_outcomes,
    open_conditions,
    plan_digest,
    plan_from_bytes,
    plan_to_bytes,
    rollback_plan,
)
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    Target,
)
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1
from tests.controller_core.plans.quiet import SEEN


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
    assert unmet(open_conditions(PLAN), seen) == ()
    assert [each.subject for each in unmet(open_conditions(PLAN, first_step=1), seen)] == ["a-0"]


def test_of_what_two_steps_change_the_last_outcome_counts_and_no_request():
    assert final_outcomes(PLAN) == (AssignedTo(*A0, replicas=ids(2, 3)),)


def test_a_rollback_is_a_plan_of_its_own_that_names_the_first():
    back = rollback_plan(PLAN)
    assert back is not None
    assert (back.steps, back.rollback.steps) == (PLAN.rollback.steps, ())
    assert back.predicted == ("a-0  replicas [2, 3] → [1, 2]",)
    assert plan_digest(PLAN)[:12] in back.risks[0]


def test_a_rollback_needs_the_brokers_it_goes_back_to():
    of_brokers = (BrokersRegistered(brokers=ids(2, 3)), BrokerInRack(broker=BrokerId(3), rack="east"))
    forward = structs.replace(PLAN, expectations=(*PLAN.expectations, *of_brokers))
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
