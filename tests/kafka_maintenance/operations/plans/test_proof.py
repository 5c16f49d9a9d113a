"""The planner's proof beside a plan is verified without a solver before the plan is applied."""

import json
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans.proof import verify_again
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import key_of, read_plan, read_proof
from spark_jobs.planner.goals import Aim, Goals
from tests.kafka_maintenance.operations.apply.applying import apply
from tests.kafka_maintenance.operations.plans.made import plan_of, six_on_two_brokers


@pytest.mark.parametrize(
    "goals",
    [
        pytest.param(Goals(), id="balance"),
        pytest.param(Goals(moves_max=2), id="widened for a cap"),
        pytest.param(Goals(aim=Aim.REPAIR, drain=frozenset({1})), id="repair"),
        pytest.param(Goals(aim=Aim.LEADERS), id="leaders"),
        pytest.param(Goals(replace={1: 3}), id="a replacement broker"),
        pytest.param(Goals(replication_factor=3), id="more replicas"),
    ],
)
def test_the_proof_beside_a_plan_confirms_it_without_a_solver(goals):
    world, store = six_on_two_brokers(), MemoryStore()
    plan = plan_of(plan_reassignment, world, store, goals=goals)
    proof = read_proof(store, plan.uri, read_plan(store, plan.uri))
    assert proof is not None
    assert verify_again(read_plan(store, plan.uri), proof).gap == 0


def first_list(proof: Any) -> None:
    proof["state"]["partitions"][0]["replicas"] = [3, 2]


def drained(proof: Any) -> None:
    proof["goals"] = {**proof["goals"], "drain": [2], "replication_factor": 2}


def without_certificate(proof: Any) -> None:
    proof["certificate"]["u"] = {"77": 1}


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        pytest.param(first_list, r"a-0 starts at \[1, 2\], in the proof at \[3, 2\]", id="another start"),
        pytest.param(drained, "wrong number of replicas", id="other goals"),
        pytest.param(without_certificate, "broker 77", id="prices of no broker"),
        pytest.param(dict.clear, "'state'", id="nothing in it"),
    ],
)
def test_what_the_verifier_does_not_confirm_is_not_applied(alter, said):
    world, store = six_on_two_brokers(), MemoryStore()
    plan = plan_of(plan_reassignment, world, store, goals=Goals(replication_factor=3))
    proof = read_proof(store, plan.uri, read_plan(store, plan.uri))
    alter(proof)
    with pytest.raises(RefusedError, match=said):
        verify_again(read_plan(store, plan.uri), proof)


def test_the_apply_step_verifies_again():
    world, store = six_on_two_brokers(), MemoryStore()
    plan = plan_of(plan_reassignment, world, store)
    key = key_of(store, plan.uri).replace(".json", ".proof.json")
    altered = json.loads(store.get(key))
    store.put(key, json.dumps(altered, indent=1).encode())
    assert read_proof(store, plan.uri, read_plan(store, plan.uri))["state"] == altered["state"]  # spelt in another way
    drained(altered)
    store.put(key, json.dumps(altered).encode())
    with pytest.raises(RefusedError, match="expected the planner's proof with hash"):
        apply(store, plan, world)
    assert world.own.exists(znode.REASSIGN_PARTITIONS) is None
