"""The copies that a plan makes, what a wave may load, and how few waves these limits allow at least.

Source: docs/planning.md, "Why the number is minimal".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from controller_core.model.words import counted
from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Bools, Ints
from spark_jobs.planner.model import ClusterState

REQUEST_BYTES_MAX = 900_000
"""ZooKeeper's server refuses packets above 1,048,575 bytes; this leaves room for the path and the header."""
REQUEST_HEADER = len('{"version":1,"partitions":[]}')
_ENTRY_BYTES = len('{"topic":"","partition":,"replicas":[]},')


class Change(Protocol):
    """What is cut into waves: new lists for the partitions of a problem. A `ReassignmentPlan` is one."""

    @property
    def state(self) -> ClusterState:
        """The cluster as it is now."""

    @property
    def problem(self) -> Problem:
        """The chosen partitions."""

    @property
    def lists(self) -> Ints:
        """[P, F] their new replica lists, -1 padded."""

    @property
    def changed(self) -> Ints:
        """[N] those whose list changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one wave may load; None means no limit."""

    in_max: int | None = 20  # replicas a broker receives
    out_max: int | None = 20  # replicas a broker sends, as leader
    broker_bytes_max: int | None = None  # bytes a broker receives, and bytes it sends
    partitions_max: int | None = 5_000
    request_bytes_max: int = REQUEST_BYTES_MAX  # of the JSON in /admin/reassign_partitions
    bandwidth: int | None = None  # bytes per second and broker that copies may use, for the estimates
    window_s: int | None = None  # how long a wave may take, for the throttle that it needs

    @property
    def in_bytes(self) -> tuple[str, ...]:
        """The given limits that mean nothing without the sizes of the partitions."""
        return tuple(name for name in ("broker_bytes_max", "bandwidth", "window_s") if getattr(self, name) is not None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copies:
    """The additions of a plan, one row each. Shapes: N additions."""

    partition: Ints  # [N] chosen partition of the problem
    source: Ints  # [N] leader position, -1 when there is none
    target: Ints  # [N] position of the new replica
    size: Ints | None  # [N]
    per_wave: Ints  # [N] additions of that partition that one wave may hold


def copies_of(plan: Change) -> Copies:
    """The additions of a plan, each from its partition's leader."""
    problem, state = plan.problem, plan.state
    new = plan.lists
    fresh = (new >= 0) & ~(new[:, :, None] == problem.replicas[:, None, :]).any(2)
    partition, column = np.nonzero(fresh)
    rows = problem.rows[partition]
    in_sync = state.in_sync[problem.rows].sum(1)
    held = (problem.replicas >= 0).sum(1)
    # More copies at once than this, and the in-sync replicas are no majority of all that are there.
    at_once = np.maximum(1, 2 * in_sync - held - 1)
    return Copies(
        partition=partition,
        source=state.leader[rows].astype(np.int64),
        target=new[partition, column],
        size=None if problem.size is None else problem.size[partition],
        per_wave=at_once[partition],
    )


def changing(plan: Change) -> Bools:
    """[P] chosen partitions whose list changes."""
    changed = np.zeros(plan.problem.partition_count, bool)
    changed[plan.changed] = True
    return changed


def lower_bound(plan: Change, copies: Copies, movable: Ints, caps: Limits, offline: Bools) -> tuple[int, str]:
    """The largest of the simple bounds, and which one it is.

    Args:
        plan: the plan.
        copies: what is copied.
        movable: rows of `copies` that can be made.
        caps: the limits of a wave.
        offline: [N] copies of partitions without a leader.
    """
    brokers = plan.problem.broker_count
    target, source = copies.target[movable], copies.source[movable]
    counts_in = np.bincount(target, minlength=brokers)
    counts_out = np.bincount(source[source >= 0], minlength=brokers)
    changed = np.nonzero(changing(plan) & ~offline)[0]
    bounds = [(1 if len(changed) else 0, "there is something to do")]
    for counts, cap, what in ((counts_in, caps.in_max, "receives"), (counts_out, caps.out_max, "sends")):
        if cap is not None and len(movable):
            busiest = int(np.argmax(counts))
            broker = plan.state.broker_ids[busiest]
            bounds.append((-(-int(counts[busiest]) // cap), f"broker {broker} {what} {counts[busiest]} replicas"))
    if len(movable):
        per_partition = np.bincount(copies.partition[movable], minlength=1)
        at_once = np.ones(len(per_partition), np.int64)
        at_once[copies.partition[movable]] = copies.per_wave[movable]
        bounds.append((int((-(-per_partition // at_once)).max()), "a partition keeps its in-sync majority"))
    if caps.partitions_max is not None:
        bounds.append((-(-len(changed) // caps.partitions_max), counted(len(changed), "partition", "change")))
    total = int(entry_bytes(plan, changed).sum())
    bounds.append((-(-total // caps.request_bytes_max), f"the requests hold {total} bytes"))
    if caps.broker_bytes_max is not None and copies.size is not None and len(movable):
        # A replica larger than the limit fills one wave, not several.
        size = np.minimum(copies.size[movable], caps.broker_bytes_max).astype(float)
        beyond = ", each replica counted up to the limit" if len(oversized(copies, movable, caps)) else ""
        for at, what in ((target, "receives"), (source, "sends")):
            volume = np.bincount(at[at >= 0], weights=size[at >= 0], minlength=brokers)
            busiest = int(np.argmax(volume))
            broker = plan.state.broker_ids[busiest]
            waves = -(-int(volume[busiest]) // caps.broker_bytes_max)
            bounds.append((waves, f"broker {broker} {what} {int(volume[busiest])} bytes{beyond}"))
            large = size > caps.broker_bytes_max / 2
            most = np.bincount(at[(at >= 0) & large], minlength=1)
            bounds.append((int(most.max(initial=0)), "replicas of more than half the byte limit do not share a wave"))
    return max(bounds, key=lambda bound: bound[0])


def oversized(copies: Copies, movable: Ints, caps: Limits) -> Ints:
    """[N] the partitions of `movable` copies that are larger than the byte limit: their waves cannot keep it."""
    if caps.broker_bytes_max is None or copies.size is None:
        return np.zeros(0, np.int64)
    return np.unique(copies.partition[movable[copies.size[movable] > caps.broker_bytes_max]])


def entry_bytes(plan: Change, partitions: Ints) -> Ints:
    """[N] bytes of each partition in a request, at most."""
    state, problem = plan.state, plan.problem
    names = np.array([len(json.dumps(topic)) - 2 for topic in problem.topic_names] or [0], np.int64)
    digits = np.char.str_len(state.broker_ids.astype(str)) + 1
    wide = plan.lists[partitions]
    listed = np.where(wide >= 0, digits[np.maximum(wide, 0)], 0).sum(1)
    number = np.char.str_len(state.number[problem.rows[partitions]].astype(str))
    return np.asarray(_ENTRY_BYTES + names[problem.topic[partitions]] + listed + number, np.int64)
