"""The proof that lies beside a planned reassignment: the state it was made from, its goals, its certificate and its trade-off curve.

Whoever has the first three and the plan can check, without a solver, that the plan keeps its bounds and how near it is to the
proven minimum. The apply step does so again, after the approval.
Source: docs/planning.md, "Why the number is minimal".
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller_core.model.partitions import TopicPartition
from controller_core.plans.plan import Plan
from controller_core.plans.request_znodes import CreateReassignPartitions
from kafka_maintenance.operations.errors import RefusedError
from spark_jobs.planner.bounds import problem_within
from spark_jobs.planner.certificate import certificate_from_json
from spark_jobs.planner.columns import Ints
from spark_jobs.planner.errors import PlannerError
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.result import ReassignmentPlan
from spark_jobs.planner.verify import Verdict, require, verify

Proof = Mapping[str, Any]


def proof_of(plan: ReassignmentPlan) -> Proof:
    """What has to be kept to verify the plan again, and what other tolerances would cost, as JSON values."""
    replicas_and_topics, leaders = plan.widened
    return {
        "certificate": plan.certificate_json(),
        "curve": plan.curve_json(),
        "goals": plan.goals.to_json(),
        "state": plan.state.to_json(),
        "widened": {"replicas_and_topics": replicas_and_topics, "leaders": leaders},
    }


def verify_again(plan: Plan, proof: Proof) -> Verdict:
    """Judges the targets of a stored plan by its proof.

    Raises:
        RefusedError: the plan breaks a rule or a bound, does not start where the proof does, or the proof is unreadable.
    """
    try:
        state = ClusterState.from_json(proof["state"])
        goals = Goals.from_json(proof["goals"])
        widths = proof["widened"]
        problem = problem_within(state, goals, int(widths["replicas_and_topics"]))
        certificate = certificate_from_json(proof["certificate"], state, problem)
        before, after = _lists(plan, backwards=True), _lists(plan, backwards=False)
        _require_start(state, before)
        lists = np.full((problem.partition_count, max(map(len, after.values()), default=1)), -1, np.int64)
        lists = _wide(lists, problem.replicas.shape[1])
        for at, row in enumerate(problem.rows.tolist()):
            name = TopicPartition(state.topics[state.topic[row]], int(state.number[row]))
            replicas = [state.position(b) for b in after[name]] if name in after else _held(problem.replicas[at])
            lists[at, : len(replicas)] = replicas
        bounded = int(widths["leaders"]) == 0
        return require(verify(problem, lists, certificate, leaders_bounded=bounded), "stored plan")
    except (PlannerError, KeyError, TypeError, ValueError) as error:
        raise RefusedError(
            f"plan of {plan.cluster!r} not applied: a plan that its proof confirms expected, found: {error}; plan again"
        ) from error


def _lists(plan: Plan, *, backwards: bool) -> dict[TopicPartition, tuple[int, ...]]:
    """Where the steps, or those of the way back, leave each partition."""
    steps = plan.rollback.steps if backwards else plan.steps
    requests = [effect for step in steps for effect in step.effects if isinstance(effect, CreateReassignPartitions)]
    return {target.partition: tuple(target.replicas) for request in requests for target in request.targets}


def _require_start(state: ClusterState, before: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    rows = zip(state.topic.tolist(), state.number.tolist(), state.replicas, strict=True)
    held = {TopicPartition(state.topics[topic], number): tuple(state.ids(row)) for topic, number, row in rows}
    other = [
        partition for partition, replicas in before.items() if held.get(partition) != tuple(dict.fromkeys(replicas))
    ]
    if other:
        raise ValueError(
            f"{other[0]} starts at {list(before[other[0]])}, in the proof at {list(held.get(other[0], ()))}"
        )


def _held(replicas: Any) -> list[int]:
    return [int(b) for b in replicas if b >= 0]


def _wide(lists: Ints, width: int) -> Ints:
    return np.pad(lists, ((0, 0), (0, max(0, width - lists.shape[1]))), constant_values=-1)
