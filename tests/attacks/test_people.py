"""Boundary: who may start runs and answer gates, against what one person may do alone: the policy."""

from datetime import UTC, datetime

import pytest

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.gate.contents import Contents
from kafka_maintenance.operations.gate.policy import CAPS_OF_KIND, Answered, Policy, policy_from, policy_of

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
DEFAULT = Policy("default", {}, {})


def policy(cluster="blue", **rules):
    document = {"version": 1, "roles": {"sre": ["olivia", "otto"]}, "default": rules}
    return policy_from(document, cluster, "d", "policy.yaml")


def of(kind, **rules):
    return policy(kinds={kind: rules})


def missing(found, kind, requester, *users, comment="CHG-1 window"):
    return found.verdict(kind, requester, tuple(Answered(user, comment) for user in users)).missing


@pytest.mark.parametrize("kind", ["delete_topics", "retain_snapshots", "restore"])
def test_nobody_approves_alone_what_destroys_and_what_he_asked_for(kind):
    assert "'otto' asked for it and may not approve it alone" in missing(DEFAULT, kind, "otto", "otto")
    assert missing(DEFAULT, kind, "otto", "olivia") == ()
    assert missing(DEFAULT, kind, "otto", "otto", "olivia") == ()


def test_an_election_may_be_approved_by_who_asked_for_it_unless_the_policy_says_otherwise():
    assert missing(DEFAULT, "elect_preferred_leaders", "otto", "otto") == ()
    strict = of("elect_preferred_leaders", requester_may_approve=False)
    assert missing(strict, "elect_preferred_leaders", "otto", "otto")


def test_where_nobody_vouches_for_who_asked_two_persons_approve():
    assert missing(DEFAULT, "retain_snapshots", None, "olivia") == ("1 of 2 approvals are there: olivia",)
    assert missing(DEFAULT, "retain_snapshots", None, "olivia", "olivia") == ("1 of 2 approvals are there: olivia",)
    assert missing(DEFAULT, "retain_snapshots", None, "olivia", "otto") == ()


def test_approvers_are_named_by_user_or_role_and_counted():
    found = of("reassign_partitions", approvers={"users": ["ada"], "roles": ["sre"]}, approvals=2)
    assert missing(found, "reassign_partitions", "x", "ada", "olivia") == ()
    told = missing(found, "reassign_partitions", "x", "victor", "ada")
    assert told == ("'victor' is no approver of reassign_partitions", "1 of 2 approvals are there: ada")


def test_whom_a_plan_waits_for_is_said_as_the_policy_would_count():
    assert DEFAULT.who_approves("elect_preferred_leaders") == "1 approval by anybody who may answer in Airflow"
    assert DEFAULT.who_approves("delete_topics") == "2 approvals by anybody who may answer in Airflow"
    found = of("reassign_partitions", approvers={"users": ["ada"], "roles": ["sre"]}, approvals=2)
    assert found.who_approves("reassign_partitions", "x") == "2 approvals by ada, olivia, otto"
    narrow = found.narrowed(frozenset({"ada", "victor"}), {})
    assert narrow.who_approves("reassign_partitions") == "2 approvals by ada"
    nobody = found.narrowed(frozenset({"victor"}), {})
    assert nobody.who_approves("reassign_partitions") == "2 approvals by nobody: the policy names none"


def test_a_comment_names_the_ticket():
    found = of("delete_topics", ticket=r"CHG-\d+")
    assert missing(found, "delete_topics", "x", "ada") == ()
    assert "names no ticket" in missing(found, "delete_topics", "x", "ada", comment="please")[0]


def test_plans_beyond_the_caps_are_not_even_asked_about():
    found = of("reassign_partitions", partitions_max=10, brokers_max=3)
    assert found.refusals("reassign_partitions", Contents(partitions=10, brokers=3)) == ()
    told = found.refusals("reassign_partitions", Contents(partitions=11, brokers=4))
    assert [text.split(" in one")[0] for text in told] == [
        "expected at most 10 partitions",
        "expected at most 3 brokers",
    ]


@pytest.mark.parametrize(
    ("size", "cap", "refused"),
    [
        pytest.param(100, 299, "found 300", id="more than the cap"),
        pytest.param(100, 300, None, id="as many as the cap"),
        pytest.param(None, 300, "the plan knows no sizes", id="nobody knows how many"),
    ],
)
def test_a_reassignment_that_copies_more_bytes_than_the_cap_is_not_even_asked_about(size, cap, refused):
    """Three replicas are copied."""
    from controller_core.adapters.object_store.open import MemoryStore
    from controller_core.model.partitions import TopicPartition
    from kafka_maintenance.operations.gate.contents import contents_of_stored
    from kafka_maintenance.operations.plans.reassignment import plan_reassignment
    from tests.kafka_maintenance.operations.plans.made import plan_of, six_on_two_brokers

    store, world = MemoryStore(), six_on_two_brokers()
    sizes = None if size is None else {TopicPartition("a", number): size for number in range(6)}
    contents = contents_of_stored(store, plan_of(plan_reassignment, world, store, sizes=sizes, move_count_max=3))
    told = of("reassign_partitions", bytes_max=cap).refusals("reassign_partitions", contents)
    assert (not told) if refused is None else (refused in told[0])


def _leader_moves(store, cluster, **what):
    from kafka_maintenance.operations.plans.leaders import plan_leader_moves

    return plan_leader_moves(store, cluster, brokers=[1], **what)


def _deletions(store, cluster, **what):
    from kafka_maintenance.operations.plans.deletions import plan_deletions

    return plan_deletions(store, cluster, topics=["a", "b"], **what)


def _elections(store, cluster, **what):
    from kafka_maintenance.operations.plans.elections import plan_elections

    return plan_elections(store, cluster, **what)


@pytest.mark.parametrize(
    ("kind", "make", "counts"),
    [
        ("elect_preferred_leaders", _elections, {"partitions": 4, "topics": 2, "brokers": 2}),
        ("move_leaders", _leader_moves, {"partitions": 4, "topics": 2, "brokers": 2}),
        ("delete_topics", _deletions, {"partitions": 4, "topics": 2}),
    ],
)
def test_each_cap_that_the_policy_takes_for_a_kind_holds_for_its_plans(kind, make, counts):
    """Broker 1 leads three partitions of `a` and one of `b`; 2 and 3 are their preferred leaders."""
    from controller_core.adapters.object_store.open import MemoryStore
    from kafka_maintenance.operations.gate.contents import contents_of_stored
    from tests.kafka_maintenance.kafka_world import three_brokers
    from tests.kafka_maintenance.operations.plans.made import plan_of

    world, store = three_brokers(), MemoryStore()
    world.topic("a", *[((2, 1), 1, (1, 2))] * 3)
    world.topic("b", ((3, 1), 1, (1, 3)))
    contents = contents_of_stored(store, plan_of(make, world, store))
    assert {name: getattr(contents, name) for name in counts} == counts
    assert tuple(f"{name}_max" for name in counts) == CAPS_OF_KIND[kind]
    for name, count in counts.items():
        assert of(kind, **{f"{name}_max": count}).refusals(kind, contents) == ()
        (told,) = of(kind, **{f"{name}_max": count - 1}).refusals(kind, contents)
        assert told == f"expected at most {count - 1} {name} in one approval, found {count}"


@pytest.mark.parametrize(
    ("kind", "cap", "counted_by"),
    [
        ("restore", "topics_max", "which is none"),
        ("retain_snapshots", "partitions_max", "which is none"),
        ("drain_isr_notifications", "brokers_max", "which is none"),
        ("cancel_reassignment", "partitions_max", "which is none"),
        ("delete_topics", "bytes_max", "partitions_max, topics_max"),
        ("move_leaders", "bytes_max", "partitions_max, topics_max, brokers_max"),
    ],
)
def test_a_cap_that_would_hold_nothing_back_is_refused(kind, cap, counted_by):
    with pytest.raises(
        BadInputError, match=rf"kinds.{kind}: .*only what such plans are counted by, {counted_by}, found {cap}"
    ):
        of(kind, **{cap: 1})


@pytest.mark.parametrize(
    ("window", "hour", "is_open"),
    [("02:00-05:00", 4, True), ("02:00-05:00", 5, False), ("22:00-02:00", 23, True), ("22:00-02:00", 12, False)],
)
def test_nothing_is_applied_outside_its_window(window, hour, is_open):
    closed = of("delete_topics", windows=[window]).closed("delete_topics", NOON.replace(hour=hour))
    assert (closed is None) == is_open


@pytest.mark.parametrize(
    ("answer", "is_closed"),
    [
        pytest.param({"user": "ada", "comment": "CHG-1"}, True, id="approved as ever"),
        pytest.param({"user": "ada", "comment": "break glass: disk full"}, False, id="broke glass"),
        pytest.param({"user": "rule r", "comment": None, "rule": {"name": "r", "between": "04:00-13:00"}}, False, id="by a rule with a time of its own"),
        pytest.param({"user": "rule r", "comment": None, "rule": {"name": "r", "between": "04:00-12:00"}}, True, id="by a rule whose time is over"),
        pytest.param({"user": "rule r", "comment": None, "rule": {"name": "r"}}, True, id="by a rule without a time of its own"),
        pytest.param(None, True, id="by the command, without a gate"),
    ],
)  # fmt: skip
def test_the_window_is_looked_at_before_each_step_unless_somebody_broke_glass(answer, is_closed):
    from controller_core.adapters.object_store.open import MemoryStore
    from kafka_maintenance.operations.gate import approvals
    from kafka_maintenance.operations.gate.permission import window_closed

    kind, store = "reassign_partitions", MemoryStore()
    found = policy(kinds={kind: {"windows": ["02:00-05:00"]}}, break_glass={"users": ["ada"]})
    if answer is not None:
        asked = {"cluster": "blue", "run": "r", "ask_id": "1"}
        approvals.keep_question(
            store, **asked, question={"kind": kind, "requester": "otto", "digest": "0" * 64, "shown": "1" * 64}
        )
        given = {"options": ["Approve"], "at": NOON.isoformat(), "responded_at": None, **answer}
        approvals.keep_answer(store, **asked, answer=given)
    of_run = {"kind": kind, "cluster": "blue", "run": None if answer is None else "r", "policy": found}
    assert (window_closed(store, **of_run, now=NOON) is not None) == is_closed
    assert window_closed(store, **of_run, now=NOON.replace(hour=4)) is None


def test_a_freeze_stops_every_kind():
    found = policy(freezes=[{"from": "2026-11-20T00:00Z", "to": "2026-12-01T00:00Z", "why": "sales"}])
    assert found.closed("elect_preferred_leaders", NOON) == "freeze until 2026-12-01T00:00Z: sales"
    assert found.closed("elect_preferred_leaders", NOON.replace(month=12)) is None
    assert found.closed("elect_preferred_leaders", NOON, {"between": "00:00-00:00"}) is not None


def test_breaking_the_glass_is_for_those_named_with_a_reason_and_is_told():
    found = policy(break_glass={"users": ["ada"]})
    glass = found.verdict("delete_topics", "ada", (Answered("ada", "Break glass: disk full"),))
    assert (glass.missing, glass.broke_glass) == ((), True)
    assert found.verdict("delete_topics", "otto", (Answered("otto", "break glass: me too"),)).missing


RULE = {"name": "early-elections", "kind": "elect_preferred_leaders", "partitions_max": 20, "all_in_sync": True}
NIGHT = NOON.replace(hour=3)


@pytest.mark.parametrize(
    ("kind", "contents", "now", "approved"),
    [
        pytest.param(
            "elect_preferred_leaders", Contents(partitions=20, all_in_sync=True), NIGHT, True, id="as it says"
        ),
        pytest.param("elect_preferred_leaders", Contents(partitions=21, all_in_sync=True), NIGHT, False, id="too many"),
        pytest.param("elect_preferred_leaders", Contents(partitions=20), NIGHT, False, id="not in sync"),
        pytest.param("elect_preferred_leaders", Contents(partitions=1, all_in_sync=True), NOON, False, id="by day"),
        pytest.param("delete_topics", Contents(partitions=1, all_in_sync=True), NIGHT, False, id="another kind"),
    ],
)
def test_a_rule_approves_exactly_what_it_says(kind, contents, now, approved):
    found = policy(approve_by_rule=[RULE | {"between": "02:00-05:00"}])
    assert (found.rule_for(kind, contents, now) is not None) == approved
    assert DEFAULT.rule_for(kind, contents, now) is None, "nothing is approved by default"


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"freezes": [{"from": "2026-11-20T00:00Z", "to": "2026-12-01T00:00Z", "why": "sales"}]}, id="a freeze"),
        pytest.param({"kinds": {RULE["kind"]: {"windows": ["12:00-13:00"]}}}, id="the windows of the kind"),
    ],
)  # fmt: skip
def test_a_rule_approves_nothing_that_could_not_be_applied_now(rules):
    contents = Contents(partitions=1, all_in_sync=True)
    assert policy(approve_by_rule=[RULE], **rules).rule_for(RULE["kind"], contents, NIGHT) is None
    assert policy(approve_by_rule=[RULE]).rule_for(RULE["kind"], contents, NIGHT) is not None


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        pytest.param(
            {"approve_by_rule": [RULE | {"kind": "delete_topics"}]}, "approve_by_rule.0.kind", id="a deletion by rule"
        ),
        pytest.param({"kinds": {"delete_topics": {"approver": {}}}}, "default.kinds.delete_topics", id="misspelt"),
        pytest.param({"command_may_apply": True}, "default.command_may_apply", id="another value"),
        pytest.param({"kinds": {"delete_topics": {"ticket": "("}}}, "kinds.delete_topics.ticket", id="no pattern"),
        pytest.param({"kinds": {"delete_topics": {"windows": []}}}, "kinds.delete_topics.windows", id="no window"),
        pytest.param({"freezes": [{"from": "today", "to": "x", "why": ""}]}, "freezes", id="no time"),
        pytest.param(
            {"freezes": [{"from": "2027-01-02", "to": "2026-12-20", "why": ""}]}, "freezes", id="turned round"
        ),
        pytest.param({"freezes": [{"from": "2026-12-24", "to": "2026-12-24", "why": ""}]}, "freezes", id="no length"),
    ],
)
def test_a_policy_that_says_something_else_is_refused_by_field(rules, field):
    with pytest.raises(BadInputError, match=f"policy policy.yaml not used: .*{field}"):
        policy(**rules)


def test_the_file_is_read_and_its_hash_kept_and_a_cluster_has_its_own_rules(tmp_path, monkeypatch):
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\ndefault: {command_may_apply: never}\nclusters: {red: {approval_valid_h: 1}}\n")
    monkeypatch.setenv("KAFKA_MAINTENANCE_POLICY", str(path))
    blue, red = policy_of("blue"), policy_of("red")
    assert (blue.command_may_apply, red.command_may_apply) == ("never", "never")
    assert (blue.approval_valid.total_seconds(), red.approval_valid.total_seconds()) == (12 * 3600, 3600)
    assert len(blue.digest) == 64
    path.write_text("version: [")
    with pytest.raises(BadInputError, match="expected YAML"):
        policy_of("blue")


def test_limits_of_a_connection_take_away_and_never_give():
    found = of("reassign_partitions", approvers={"users": ["ada", "olivia"]}, partitions_max=10)
    narrowed = found.narrowed(frozenset({"ada", "victor"}), {"partitions_max": 20, "brokers_max": 3})
    assert missing(narrowed, "reassign_partitions", "x", "ada") == ()
    assert missing(narrowed, "reassign_partitions", "x", "olivia")[0].endswith("as its connection says")
    assert (
        missing(narrowed, "reassign_partitions", "x", "victor")[0] == "'victor' is no approver of reassign_partitions"
    )
    told = narrowed.refusals("reassign_partitions", Contents(partitions=11, brokers=4))
    assert [text.split(" in one")[0] for text in told] == [
        "expected at most 10 partitions",
        "expected at most 3 brokers",
    ]
    assert narrowed.refusals("elect_preferred_leaders", Contents(partitions=21)) != ()
    assert narrowed.digest.startswith(f"{found.digest}+")
    assert len({found.digest, narrowed.digest, found.narrowed(frozenset({"ada"}), {}).digest}) == 3
    assert found.narrowed(None, {}) is found
