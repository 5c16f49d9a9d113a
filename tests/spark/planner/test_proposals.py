"""The nightly proposal of one snapshot equals the plain planner's plan, and says why it moves what it moves."""

import json

import pyarrow as pa
import pytest

from spark_jobs.core_bridge import SnapshotRows
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.planning import plan_reassignment
from spark_jobs.proposals import cluster_state, propose
from tests.spark.planner.clusters import KINDS, of_kind

FACTS = {
    "any_reassignment": False,
    "queued_topics": [],
    "deletion_enabled": True,
    "kafka_version": "3.9",
    "inter_broker_protocol_version": None,
}


def snapshot(state, **facts):
    """The rows that a snapshot of `state` would hold."""
    replicas = [state.ids(row) for row in state.replicas]
    live = [int(b) for b, ok in zip(state.broker_ids, state.live, strict=True) if ok]
    table = pa.table(
        {
            "topic": [state.topics[t] for t in state.topic],
            "partition": state.number.tolist(),
            "replicas": replicas,
            "isr": replicas,
            "leader": [row[0] for row in replicas],
        }
    )
    racks = [None if state.rack_names == ("",) else state.rack_names[r] for r in state.rack]
    rack_of = [{"broker_id": b, "rack": rack} for b, rack in zip(state.broker_ids.tolist(), racks, strict=True)]
    return SnapshotRows({**FACTS, "live": live, "rack_of": rack_of, **facts}, table)


def proposal(state, **facts):
    (row,) = propose(Goals())(snapshot(state, **facts))
    return row


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "replicas" not in kind and kind != "drain"])
@pytest.mark.parametrize("racks", [1, 3])
def test_a_proposal_is_the_plain_planners_plan(kind, racks):
    state = of_kind(kind, racks=racks)
    found = proposal(state)
    plain = plan_reassignment(cluster_state(snapshot(state)), Goals())
    assert json.loads(found["plan"]) == plain.reassignment_json()
    assert json.loads(found["certificate"]) == plain.certificate_json()
    assert (found["moves"], found["moves_lower_bound"]) == (plain.moves, plain.moves_bound)


def test_a_proposal_says_why_and_what_the_controller_will_do():
    said = proposal(of_kind("skewed"))["explanation"]
    assert "Why: a broker holds too many replicas:" in said
    assert "waves, at least" in said
    assert "Fewest moves by tolerance" in said
    assert "Run through the controller's rules, wave by wave:" in said


def test_a_running_reassignment_postpones_the_proposal():
    assert proposal(of_kind("skewed"), any_reassignment=True)["status"] == "postponed"


def test_a_snapshot_without_brokers_has_no_plan():
    assert proposal(of_kind("skewed"), live=[])["status"] == "impossible"
