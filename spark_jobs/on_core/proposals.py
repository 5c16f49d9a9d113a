"""A proposed reassignment for one snapshot: the planner's proven plan, or why there is none, in words.

Runs on executors through `bridge.per_snapshot`. Partitions that cannot be moved now are left out, as the command that
makes plan documents leaves them out, and named. What is shown has been run through the controller's rules, wave by
wave; `solver_seconds` are the CPU seconds of planning and of that. The plan is a candidate: it becomes a plan document,
with its preconditions and its gate, when somebody asks for it.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controller_core.model.words import counted, first_names
from spark_jobs.on_core.bridge import Analysis, SnapshotRows
from spark_jobs.planner import explain
from spark_jobs.planner.columns import offsets_of, shorten
from spark_jobs.planner.errors import ImpossibleGoalError, InvalidStateError, PlanRejectedError, RacksUnknownError
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.movable import unmovable
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.predict import moves_of, predict_plan
from spark_jobs.planner.prediction import require_safe
from spark_jobs.planner.result import ReassignmentPlan
from spark_jobs.planner.waves import schedule

PLANNED, BALANCED, POSTPONED, IMPOSSIBLE = "planned", "balanced", "postponed", "impossible"
_SHOWN = 8


def propose(goals: Goals) -> Analysis:
    """The analysis that plans one snapshot: one row of schemas.PROPOSALS."""

    def analysis(rows: SnapshotRows) -> Iterator[dict[str, Any]]:
        yield _proposal(rows, goals)

    return analysis


def cluster_state(rows: SnapshotRows, *, ignore_racks: bool = False) -> ClusterState:
    """The planner's arrays of one snapshot; replicas on unregistered brokers count as dead.

    Raises:
        RacksUnknownError: some registered brokers have a rack and others none, unless racks are ignored.
        InvalidStateError: the rows cannot be planned on.
    """
    table = rows.partitions
    topics = table.column("topic").combine_chunks().dictionary_encode()
    replicas, isr = rows.broker_lists("replicas"), rows.broker_lists("isr")
    brokers = rows.brokers
    return ClusterState.from_columns(
        broker_ids=[broker.id for broker in brokers],
        racks=[broker.rack for broker in brokers],
        topics=topics.indices.to_numpy(),
        topic_names=topics.dictionary.to_pylist(),
        partitions=table.column("partition").to_numpy(),
        replica_offsets=offsets_of(replicas),
        replica_ids=_flat(replicas),
        leaders=table.column("leader").fill_null(-1).to_numpy(),
        isr_offsets=offsets_of(isr),
        isr_ids=_flat(isr),
        ignore_racks=ignore_racks,
    )


def _proposal(rows: SnapshotRows, goals: Goals) -> dict[str, Any]:
    facts = rows.facts
    if facts["kraft_begun"]:
        return _without_plan(
            POSTPONED, "the cluster is on its way to KRaft: nothing is written to ZooKeeper until a way back has ended"
        )
    if facts["reassign_requests"]:
        return _without_plan(POSTPONED, "a request to reassign partitions is pending; plan again when it is done")
    if not facts["live"]:
        return _without_plan(IMPOSSIBLE, "no broker is registered")
    to_be_deleted = rows.topics_to_be_deleted
    topics = {topic for topic in set(rows.column("topic")) if goals.chooses(topic)}
    if not topics - to_be_deleted:
        return _without_plan(BALANCED, "there is no topic to place")
    started = time.process_time()
    left_out = _left_out(rows, topics, to_be_deleted)
    if all(row in left_out or topic not in topics for row, topic in enumerate(rows.column("topic"))):
        return _without_plan(POSTPONED, _left_out_in_words(rows, left_out))
    try:
        state = cluster_state(_without(rows, left_out), ignore_racks=goals.ignore_racks)
        plan = optimal_plan(state, goals)
        waves = schedule(plan)
        predicted = require_safe(predict_plan(state, moves_of(waves), rows.dialect))
    except RacksUnknownError as error:
        return _without_plan(POSTPONED, str(error))
    except (ImpossibleGoalError, InvalidStateError, PlanRejectedError) as error:
        return _without_plan(IMPOSSIBLE, str(error))
    seconds = time.process_time() - started
    remarks = [*([_left_out_in_words(rows, left_out)] if left_out else []), *plan.remarks]
    return {
        "status": PLANNED if len(plan.changed) else BALANCED,
        "reason": None if len(plan.changed) else "; ".join(remarks) or None,
        "moves": plan.moves,
        "moves_lower_bound": plan.moves_bound,
        "leader_changes": plan.leader_changes,
        "leader_changes_lower_bound": plan.verdict.leader_changes_bound,
        "solver_seconds": seconds,
        "explanation": "\n".join(
            [
                explanation(plan),
                *plan.balance_texts(),
                *remarks,
                f"{len(waves.waves)} waves, at least {waves.lower_bound} ({waves.bound_reason}).",
                *([plan.curve_text] if plan.curve else []),
                predicted.text,
            ]
        ),
        "plan": _text(plan.reassignment_json()),
        "rollback": _text(plan.rollback_json()),
        "certificate": _text(plan.certificate_json()),
    }


def _left_out(rows: SnapshotRows, topics: AbstractSet[str], to_be_deleted: AbstractSet[str]) -> dict[int, str]:
    """Row → why a partition of the chosen `topics` cannot be moved now. `to_be_deleted` ones are being deleted."""
    lengths = (pc.list_value_length(rows.partitions.column(name)).to_pylist() for name in ("adding", "removing"))
    held = (rows.broker_lists(name) for name in ("replicas", "isr"))
    columns = zip(rows.column("topic"), rows.column("leader"), *held, *lengths, strict=True)
    live = frozenset(rows.facts["live"])
    found = (
        unmovable(
            topic=topic,
            is_queued=topic in to_be_deleted,
            is_being_reassigned=bool(adding or removing),
            replicas=replicas,
            leader=leader,
            isr=isr,
            live=live,
        )
        if topic in topics
        else None
        for topic, leader, replicas, isr, adding, removing in columns
    )
    return {row: reason for row, reason in enumerate(found) if reason is not None}


def _without(rows: SnapshotRows, left_out: Mapping[int, str]) -> SnapshotRows:
    if not left_out:
        return rows
    stays = np.ones(rows.partitions.num_rows, bool)
    stays[list(left_out)] = False
    return SnapshotRows(rows.facts, rows.partitions.filter(pa.array(stays)))


def _left_out_in_words(rows: SnapshotRows, left_out: Mapping[int, str]) -> str:
    names, found = rows.names(), defaultdict(list)
    for row, reason in left_out.items():
        found[reason].append(names[row])
    told = (f"{reason}: {counted(len(those), 'partition')} {shorten(those)}" for reason, those in sorted(found.items()))
    return f"Left out: {'; '.join(told)}."


def explanation(plan: ReassignmentPlan) -> str:
    """Why a plan moves what it moves: a few lines of plain words."""
    state, problem = plan.state, plan.problem
    before, after = _held(problem.replicas, problem.broker_count), _held(plan.lists, problem.broker_count)
    changed = f"{len(plan.changed)} of {problem.partition_count} partitions change"
    lines = [f"{changed}; {plan.moves} replicas are copied, at least {plan.moves_bound} must be to reach the goals."]
    leaving = [row for row in range(problem.broker_count) if before[row] and not problem.eligible[row]]
    if leaving:
        dead = [state.broker_ids[row] for row in leaving if not state.live[row]]
        lines.append(
            f"Brokers {first_names(state.broker_ids[leaving].tolist(), _SHOWN)} must be emptied: {int(before[leaving].sum())} replicas."
            + (
                f" Of these {first_names(dead, _SHOWN)} are not registered: starting them again makes their moves needless."
                * bool(dead)
            )
        )
    reasons = explain.counted(state, problem, plan.lists, plan.changed)
    if reasons:
        lines.append(
            "Why: " + "; ".join(f"{reason}: {counted(count, 'partition')}" for reason, count in reasons.items()) + "."
        )
    gains = after - before
    receivers = [row for row in np.argsort(-gains, kind="stable") if gains[row] > 0]
    givers = [row for row in np.argsort(gains, kind="stable") if gains[row] < 0 and problem.eligible[row]]
    if receivers:
        lines.append("Receive: " + _changes(state, receivers, before, after))
    if givers:
        lines.append("Give: " + _changes(state, givers, before, after))
    return "\n".join(lines)


def _changes(state: ClusterState, rows: list[Any], before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> str:
    changes = [f"broker {state.broker_ids[row]} from {before[row]} to {after[row]}" for row in rows]
    return f"{first_names(changes, _SHOWN)}."


def _held(lists: Any, broker_count: int) -> np.ndarray[Any, Any]:
    return np.bincount(lists[lists >= 0].astype(np.int64), minlength=broker_count)


def _without_plan(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}


def _flat(lists: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
    return np.fromiter((broker for one in lists for broker in one), np.int64)


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True)
