"""Why a plan changes a partition, in words that an approver can check against the cluster.

The first reason that applies is given, the most compelling first: a dead broker before a leaving one, a repair before a
balance. "Makes room" is said of a move that only serves others: it is one link of a chain of exchanges.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Ints
from spark_jobs.planner.model import ClusterState

Lists = np.ndarray[Any, np.dtype[Any]]


class Reason(IntEnum):
    """What a partition changes for; smaller is more compelling."""

    DEAD = 0
    LEAVING = 1
    MORE_REPLICAS = 2
    FEWER_REPLICAS = 3
    RACKS = 4
    BROKER_OVER = 5
    BROKER_UNDER = 6
    TOPIC_OVER = 7
    TOPIC_UNDER = 8
    MAKES_ROOM = 9
    LEADERS = 10
    ORDER = 11


_TITLES = {
    Reason.DEAD: "a replica is on a dead broker",
    Reason.LEAVING: "a replica is on a broker that leaves",
    Reason.MORE_REPLICAS: "the replication factor grows",
    Reason.FEWER_REPLICAS: "the replication factor shrinks",
    Reason.RACKS: "the replicas break the rack rule",
    Reason.BROKER_OVER: "a broker holds too many replicas",
    Reason.BROKER_UNDER: "a broker holds too few replicas",
    Reason.TOPIC_OVER: "a broker holds too many replicas of the topic",
    Reason.TOPIC_UNDER: "a broker holds too few replicas of the topic",
    Reason.MAKES_ROOM: "it makes room for another move",
    Reason.LEADERS: "another broker is to lead",
    Reason.ORDER: "the order of the list",
}


def reasons(state: ClusterState, problem: Problem, lists: Lists, changed: Ints) -> list[str]:
    """One sentence for each changed partition, in the order of `changed`.

    Args:
        state: the cluster as the planner sees it.
        problem: what is to be solved.
        lists: [P, W] the new replica lists.
        changed: rows of the partitions that change.
    """
    codes, broker = _classified(state, problem, lists, changed)
    load = np.bincount(problem.replicas[problem.replicas >= 0], minlength=problem.broker_count)
    led = np.bincount(problem.replicas[:, 0], minlength=problem.broker_count)
    ids = state.broker_ids
    out = []
    for code, b, row in zip(codes.tolist(), broker.tolist(), changed.tolist(), strict=True):
        reason = Reason(code)
        text = _TITLES[reason]
        if reason in {Reason.DEAD, Reason.LEAVING}:
            text += f" ({ids[b]})"
        elif reason in {Reason.BROKER_OVER, Reason.BROKER_UNDER}:
            text += f" ({ids[b]} holds {load[b]}, {problem.low[b]} to {problem.high[b]} wanted)"
        elif reason in {Reason.TOPIC_OVER, Reason.TOPIC_UNDER}:
            text += f" ({ids[b]})"
        elif reason is Reason.LEADERS:
            text += f" ({ids[b]} leads {led[b]}, {problem.leader_low[b]} to {problem.leader_high[b]} wanted)"
        elif reason in {Reason.MORE_REPLICAS, Reason.FEWER_REPLICAS}:
            before, after = int((problem.replicas[row] >= 0).sum()), int((lists[row] >= 0).sum())
            text += f" ({before} to {after})"
        out.append(text)
    return out


def counted(state: ClusterState, problem: Problem, lists: Lists, changed: Ints) -> dict[str, int]:
    """How many partitions change for which reason, the most compelling first.

    Args:
        state: the cluster as the planner sees it.
        problem: what is to be solved.
        lists: [P, W] the new replica lists.
        changed: rows of the partitions that change.
    """
    codes, _ = _classified(state, problem, lists, changed)
    counts = np.bincount(codes, minlength=len(Reason))
    return {_TITLES[reason]: int(counts[reason]) for reason in Reason if counts[reason]}


def _classified(state: ClusterState, problem: Problem, lists: Lists, changed: Ints) -> tuple[Ints, Ints]:
    """[N] reason and the broker it speaks of."""
    old, new = problem.replicas[changed].astype(np.int64), np.asarray(lists[changed], np.int64)
    left = (old >= 0) & ~(old[:, :, None] == new[:, None, :]).any(2)
    came = (new >= 0) & ~(new[:, :, None] == old[:, None, :]).any(2)
    code = np.full(len(changed), int(Reason.ORDER))
    broker = old[:, 0].copy()
    leads = np.bincount(problem.replicas[:, 0], minlength=problem.broker_count)
    over_led = leads > problem.leader_high
    code[new[:, 0] != old[:, 0]] = Reason.LEADERS
    under_led = (new[:, 0] != old[:, 0]) & ~over_led[old[:, 0]]
    broker[under_led] = new[under_led, 0]
    code[came.any(1)] = Reason.MAKES_ROOM
    load = np.bincount(problem.replicas[problem.replicas >= 0], minlength=problem.broker_count)
    tests: list[tuple[Reason, Lists, Lists]] = []
    if problem.topic_spread:
        low, high = problem.cell_bounds()
        there = problem.replicas >= 0
        key = (problem.topic[:, None] * problem.broker_count + problem.replicas)[there]
        cells = np.bincount(key, minlength=low.size).reshape(low.shape)
        topic = problem.topic[changed][:, None]
        tests.append((Reason.TOPIC_UNDER, came & (cells < low)[topic, np.maximum(new, 0)], new))
        tests.append((Reason.TOPIC_OVER, left & (cells > high)[topic, np.maximum(old, 0)], old))
    tests.append((Reason.BROKER_UNDER, came & (load < problem.low)[np.maximum(new, 0)], new))
    tests.append((Reason.BROKER_OVER, left & (load > problem.high)[np.maximum(old, 0)], old))
    tests.append((Reason.RACKS, left & _breaks_racks(problem, changed)[:, None], old))
    tests.append((Reason.FEWER_REPLICAS, left & ((new >= 0).sum(1) < (old >= 0).sum(1))[:, None], old))
    tests.append((Reason.MORE_REPLICAS, came & ((new >= 0).sum(1) > (old >= 0).sum(1))[:, None], new))
    gone = left & ~problem.eligible[np.maximum(old, 0)]
    tests.append((Reason.LEAVING, gone, old))
    tests.append((Reason.DEAD, gone & ~state.live[np.maximum(old, 0)], old))
    for reason, where, of in tests:
        rows = np.nonzero(where.any(1))[0]
        code[rows] = reason
        broker[rows] = of[rows, where[rows].argmax(1)]
    return code, broker


def _breaks_racks(problem: Problem, changed: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    old = problem.replicas[changed]
    racks = np.where(old >= 0, problem.rack[np.maximum(old, 0)], -1)
    most = problem.rack_max[problem.factor[changed]]
    over = np.zeros(len(changed), bool)
    for g in range(most.shape[1]):
        over |= (racks == g).sum(1) > most[:, g]
    return over
