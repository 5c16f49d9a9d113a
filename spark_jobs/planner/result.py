"""A finished plan: what changes and why, what it costs, how good it is, and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spark_jobs.planner import explain
from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.certificate import Certificate
from spark_jobs.planner.columns import Ints, wide
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.verify import Verdict, added


class CurvePoint(NamedTuple):
    """What a tolerance costs: the fewest moves within it."""

    tolerance: int
    moves: int
    proven: bool  # False: only a lower bound is known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReassignmentPlan:
    """A verified plan of one cluster."""

    state: ClusterState
    goals: Goals
    problem: Problem
    lists: Ints  # [P, F] new replica lists of all chosen partitions, -1 padded
    certificate: Certificate
    verdict: Verdict
    changed: Ints  # [N] chosen partitions whose list changes
    curve: tuple[CurvePoint, ...]
    remarks: tuple[str, ...]  # what a person should know: widened bounds, offline partitions, …
    widened: tuple[int, int] = (0, 0)  # bounds of replicas and topics, and of leaders, beyond the tolerance

    @staticmethod
    def of(
        state: ClusterState,
        goals: Goals,
        problem: Problem,
        lists: Ints,
        certificate: Certificate,
        verdict: Verdict,
        *,
        curve: tuple[CurvePoint, ...] = (),
        remarks: tuple[str, ...] = (),
        widened: tuple[int, int] = (0, 0),
    ) -> ReassignmentPlan:
        """The plan, with the partitions that change found.

        Args:
            state: the cluster as the planner sees it.
            goals: that were asked for.
            problem: what is to be solved.
            lists: [P, W] the new replica lists.
            certificate: proof of the fewest moves.
            verdict: what the solver says of it.
            curve: moves and imbalance of other plans.
            remarks: for the approver.
            widened: by how much the bounds of replicas and leaders were widened.
        """
        width = max(lists.shape[1], problem.replicas.shape[1])
        changed = np.nonzero((wide(lists, width) != wide(problem.replicas, width)).any(1))[0]
        return ReassignmentPlan(
            state=state,
            goals=goals,
            problem=problem,
            lists=lists,
            certificate=certificate,
            verdict=verdict,
            changed=changed,
            curve=curve,
            remarks=remarks,
            widened=widened,
        )

    @property
    def moves(self) -> int:
        """Replicas added."""
        return self.verdict.moves

    @property
    def moves_bound(self) -> int:
        """No plan within the bounds adds fewer."""
        return self.verdict.moves_bound

    @property
    def gap(self) -> int:
        """Moves above the proven minimum; 0 means proven minimal."""
        return self.verdict.gap

    @property
    def leader_changes(self) -> int:
        """Partitions whose preferred leader changes."""
        return self.verdict.leader_changes

    @property
    def bytes_moved(self) -> int | None:
        """Bytes copied, None when sizes are unknown."""
        if self.problem.size is None:
            return None
        return int((added(self.problem, self.lists) * self.problem.size).sum())

    def balance(self) -> dict[str, Any]:
        """Smallest and largest number of replicas, leaders and bytes over the eligible brokers, before and after."""
        return {"before": self._spread(self.problem.replicas), "after": self._spread(self.lists)}

    def balance_texts(self) -> list[str]:
        """What the plan makes of replicas, leaders and, where sizes are known, bytes per broker, a sentence each."""
        balance = self.balance()
        before, after = balance["before"], balance["after"]
        texts = [
            f"{what.capitalize()} per broker: {before[what][0]} to {before[what][1]} before, "
            f"{after[what][0]} to {after[what][1]} after."
            for what in ("replicas", "leaders")
        ]
        if self.bytes_moved is not None:
            texts.append(
                f"{self.bytes_moved} bytes are copied; the fullest broker holds {before['bytes_max_over_mean']} times the "
                f"mean before, {after['bytes_max_over_mean']} times after."
            )
        return texts

    def _spread(self, lists: np.ndarray[Any, np.dtype[Any]]) -> dict[str, Any]:
        brokers, eligible = self.problem.broker_count, self.problem.eligible
        there = lists >= 0
        load = np.bincount(lists[there], minlength=brokers)[eligible]
        led = np.bincount(lists[:, 0], minlength=brokers)[eligible]
        out: dict[str, Any] = {
            "replicas": [int(load.min()), int(load.max())],
            "leaders": [int(led.min()), int(led.max())],
        }
        if self.problem.size is not None:
            weights = np.repeat(self.problem.size, there.sum(1)).astype(float)
            volume = np.bincount(lists[there], weights=weights, minlength=brokers)[eligible]
            out["bytes"] = [int(volume.min()), int(volume.max())]
            out["bytes_max_over_mean"] = round(float(volume.max() / (volume.mean() or 1.0)), 4)
        return out

    @property
    def curve_text(self) -> str:
        """The trade-off curve as a sentence; empty when there is none."""
        if not self.curve:
            return ""
        points = [f"{p.tolerance}: {p.moves}{'' if p.proven else ' or more'}" for p in self.curve]
        return f"Fewest moves by tolerance (replicas off the mean): {', '.join(points)}."

    def curve_json(self) -> list[dict[str, Any]]:
        """The trade-off curve as JSON values."""
        return [point._asdict() for point in self.curve]

    def reasons(self) -> list[str]:
        """Why each changed partition changes, in the order of `changed`."""
        return explain.reasons(self.state, self.problem, self.lists, self.changed)

    def summary(self) -> dict[str, Any]:
        """Small figures of the plan as JSON values."""
        return {
            "goals": self.goals.to_json(),
            "partitions": self.problem.partition_count,
            "partitions_changed": len(self.changed),
            "moves": self.moves,
            "moves_bound": self.moves_bound,
            "gap": self.gap,
            "leader_changes": self.leader_changes,
            "leader_changes_bound": self.verdict.leader_changes_bound,
            "bytes_moved": self.bytes_moved,
            "balance": self.balance(),
            "curve": self.curve_json(),
            "reasons": explain.counted(self.state, self.problem, self.lists, self.changed),
            "remarks": list(self.remarks),
        }

    def reassignment_json(self) -> dict[str, Any]:
        """Kafka's reassignment JSON of all changed partitions."""
        return self._document(self.lists)

    def rollback_json(self) -> dict[str, Any]:
        """Kafka's reassignment JSON that gives every changed partition its old list back."""
        return self._document(self.problem.replicas)

    def certificate_json(self) -> dict[str, Any]:
        """The certificate with broker ids and topic names."""
        return self.certificate.to_json(self.state, self.problem)

    def _document(self, lists: np.ndarray[Any, np.dtype[Any]]) -> dict[str, Any]:
        ids = self.state.broker_ids
        rows = self.changed
        chosen = lists[rows]
        lengths = (chosen >= 0).sum(1).tolist()
        named = ids[np.maximum(chosen, 0)].tolist()
        topics = self.state.topic[self.problem.rows[rows]].tolist()
        numbers = self.state.number[self.problem.rows[rows]].tolist()
        return {
            "version": 1,
            "partitions": [
                {"topic": self.state.topics[topic], "partition": number, "replicas": replicas[:length]}
                for topic, number, replicas, length in zip(topics, numbers, named, lengths, strict=True)
            ],
        }
