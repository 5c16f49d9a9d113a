"""Which replicas stay and where the others go, as one integral minimum-cost flow.

The hub network has one row per (topic, rack) and its size does not depend on the number of partitions: all healthy
partitions of a topic are alike. Partitions that hold too much in a rack, or may choose their racks, keep nodes of their
own or per pattern. Where that is only a bound, `expanded` partitions get an arc to every broker (the full network).
Source: docs/planning.md, "Why the number is minimal"; ortools `SimpleMinCostFlow`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_jobs.planner.bounds import UNLIMITED, Problem
from spark_jobs.planner.certificate import Certificate
from spark_jobs.planner.columns import Bools, Ints
from spark_jobs.planner.errors import SolverFailedError
from spark_jobs.planner.network import Network, distances
from spark_jobs.planner.verify import held_per_rack

POOLED, APART, EXPANDED = 0, 1, 2
MOVES_ALONE = 1
"""The weight of a move, in kept leaders, when leaders do not count."""
_ROUNDS_MAX = 250


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow:
    """An optimal flow read back: who keeps what, and how many replicas each cell receives.

    Entries are the (partition, broker) pairs now held on eligible brokers, N of them.
    """

    entry_partition: Ints  # [N]
    entry_broker: Ints  # [N]
    entry_column: Ints  # [N] place in the replica list
    entry_group: Ints  # [N] key of the pool the entry is kept from
    entry_stays: Bools  # [N] entries without a pool that are kept
    pool_kept: Ints  # kept replicas per pool
    pool_kept_leaders: Ints  # of them rewarded preferred leaders
    direct: tuple[Ints, Ints]  # (partition, broker) of replicas that expanded partitions get or keep
    received: Ints  # [T, B] replicas that each cell receives
    rack_units: Ints  # [A, R] replicas of each free group per rack
    group_of: Ints  # [P] free group of a partition, -1 for none
    certificate: Certificate | None  # None where none was asked for, or when leaders weighed so much that moves did not


def rewarded_leaders(problem: Problem) -> Ints:
    """[B] 1 for brokers that do not lead too much: keeping their leaders in the set is worth something."""
    led = np.bincount(problem.replicas[:, 0], minlength=problem.broker_count)
    return (problem.eligible & (led <= problem.leader_high)).astype(np.int64)


def place(
    problem: Problem, detail: Ints, reward: Ints, *, weight: int, priced: bool = True, lean: bool = False
) -> Flow:
    """Solves the placement flow.

    Args:
        problem: partitions and bounds.
        detail: [P] POOLED, APART (a node of its own) or EXPANDED (an arc to every broker) for each partition.
        reward: [P] 1 where keeping the preferred leader counts.
        weight: how many kept leaders a move is worth: MOVES_ALONE ignores leaders, more than there are partitions puts
            moves strictly first.
        priced: compute the certificate (a second pass needs none).
        lean: half the nodes for partitions with two replicas in a rack, for networks with many of them; of their
            leaders somewhat fewer may be kept than could be.

    Raises:
        SolverFailedError: no flow meets the bounds.
    """
    reward = np.zeros_like(reward) if weight == MOVES_ALONE else reward
    return _Placement(problem, detail, reward, weight, lean=lean).run(priced=priced)


class _Placement:
    """One placement flow while it is built; fields are set once, in the order of the methods that `run` calls."""

    def __init__(self, problem: Problem, detail: Ints, reward: Ints, scale: int, *, lean: bool) -> None:
        self.problem = problem
        self.scale = scale
        self.reward = reward
        self.net = Network()
        self.topics = len(problem.topic_names) if problem.topic_spread else 1
        self.brokers = problem.broker_count
        self.racks = len(problem.rack_brokers)
        self.topic = problem.topic if problem.topic_spread else np.zeros_like(problem.topic)
        self.cells = self.topics * self.brokers
        held = held_per_rack(problem)
        least, most = problem.rack_min[problem.factor], problem.rack_max[problem.factor]
        wanted = np.asarray(problem.factors, np.int64)[problem.factor]
        fixed = (least == most).all(1)
        expanded = detail == EXPANDED
        self.expanded, self.apart = expanded, detail == APART
        self.free = ~fixed & ~expanded
        self.surplus = (held > most) & (fixed & ~expanded)[:, None]  # [P, R]
        self.simple = ~self.surplus & (fixed & ~expanded)[:, None]
        self.keeps_all = (held <= most).all(1) & (np.maximum(held, least).sum(1) <= wanted)
        self.held, self.least, self.most, self.wanted = held, least, most, wanted
        there = (problem.replicas >= 0) & problem.eligible[np.maximum(problem.replicas, 0)]
        self.partition, self.column = np.nonzero(there)
        self.broker = problem.replicas[self.partition, self.column].astype(np.int64)
        self.rack = problem.rack[self.broker]
        self.cell = self.topic[self.partition] * self.brokers + self.broker
        self.lead = (self.column == 0) * reward[self.partition]
        self.lean = lean
        self.paired = np.zeros(len(self.partition), bool)
        self.stays = np.zeros(len(self.partition), bool)
        self.overdrawn = np.zeros(self.cells, np.int64)  # units that were kept and left again on the way of others
        self.readers: list[Callable[[Ints], None]] = []
        self.received = np.zeros(self.cells, np.int64)
        self.entry_group = np.full(len(self.partition), -1, np.int64)
        self.pools: list[tuple[Ints, Ints]] = []  # kept, kept leaders per pool, filled when the flow is read
        self.pool_count = 0
        self.direct: list[tuple[Ints, Ints]] = []
        self.rack_units = np.zeros((0, self.racks), np.int64)
        self.group_of = np.full(problem.partition_count, -1, np.int64)

    def run(self, *, priced: bool) -> Flow:
        self._nodes()
        self._surplus_groups()
        self._free_groups()
        self._expanded_partitions()
        self._rows()
        self._sink()
        flows = self.net.solve("placement")
        for read in self.readers:
            read(flows)
        self.readers.clear()  # they hold this object, and with it hundreds of megabytes
        certificate = self._certificate(flows) if priced else None
        kept = np.zeros(self.pool_count, np.int64)
        leaders = np.zeros(self.pool_count, np.int64)
        for pool, units, of_leaders in self.kept_units:
            np.add.at(kept, pool, units)
            np.add.at(leaders, pool, of_leaders)
        direct = [np.concatenate([d[i] for d in self.direct]) if self.direct else np.zeros(0, np.int64) for i in (0, 1)]
        return Flow(
            entry_partition=self.partition,
            entry_broker=self.broker,
            entry_column=self.column,
            entry_group=self.entry_group,
            entry_stays=self.stays,
            pool_kept=kept,
            pool_kept_leaders=leaders,
            direct=(direct[0], direct[1]),
            received=self.received.reshape(self.topics, self.brokers),
            rack_units=self.rack_units,
            group_of=self.group_of,
            certificate=certificate,
        )

    def _nodes(self) -> None:
        self.kept_units: list[tuple[Ints, Ints, Ints]] = []
        self.sink = self.net.add_nodes(1)
        self.broker_node = self.net.add_nodes(self.brokers)
        self.row_node = self.net.add_nodes(self.topics * self.racks)
        entry_simple = self.simple[self.partition, self.rack]
        # A cell that only its row feeds needs no node: its lower bound is shipped in advance, over parallel arcs.
        self.cell_node = np.full(self.cells, -1, np.int64)
        if self.problem.topic_spread:
            touched = np.unique(self.cell[~entry_simple & ~self.expanded[self.partition]])
            if self.expanded.any():
                whole = np.unique(self.topic[self.expanded])
                eligible = np.nonzero(self.problem.eligible)[0]
                touched = np.union1d(touched, (whole[:, None] * self.brokers + eligible).ravel())
            low, high = self.problem.cell_bounds()
            self.cell_low, self.cell_high = low.ravel(), high.ravel()
            self.cell_node[touched] = self.net.add_nodes(len(touched)) + np.arange(len(touched))
            self.net.supply(self.cell_node[touched], -self.cell_low[touched])
            self.cell_arcs = (
                touched,
                self.net.add_arcs(
                    self.cell_node[touched],
                    self.broker_node + touched % self.brokers,
                    self.cell_high[touched] - self.cell_low[touched],
                    0,
                ),
            )
        else:
            self.cell_low, self.cell_high = np.zeros(self.cells, np.int64), np.full(self.cells, UNLIMITED, np.int64)
        self.entry_simple = entry_simple

    def _into(self, cells: Ints) -> Ints:
        """The node through which units reach a cell: its own, or the broker's when it has none."""
        return np.where(self.cell_node[cells] >= 0, self.cell_node[cells], self.broker_node + cells % self.brokers)

    def _keep_arcs(self, tails: Ints, entries: Ints, pools: Ints) -> None:
        """Arcs from group nodes to the cells their entries are in, entries of one (pool, cell) merged."""
        self.entry_group[entries] = pools + self.pool_count
        count = int(pools.max(initial=-1)) + 1
        leaders = np.bincount(pools, weights=self.lead[entries], minlength=count).astype(np.int64)
        others = np.bincount(pools, minlength=count) - leaders
        head, tail = np.zeros(count, np.int64), np.zeros(count, np.int64)
        head[pools], tail[pools] = self._into(self.cell[entries]), tails
        ids = np.arange(count) + self.pool_count
        self.pool_count += count
        some = np.nonzero(others)[0]
        led = np.nonzero(leaders)[0]
        plain = self.net.add_arcs(tail[some], head[some], others[some], 0)
        first = self.net.add_arcs(tail[led], head[led], leaders[led], -1)

        def read(flows: Ints) -> None:
            self.kept_units.append((ids[some], flows[plain], np.zeros(len(some), np.int64)))
            self.kept_units.append((ids[led], flows[first], flows[first]))

        self.readers.append(read)

    def _surplus_groups(self) -> None:
        """Partitions that hold more in a rack than they may: the same brokers, the same group."""
        partition, rack = np.nonzero(self.surplus)
        if not len(partition):
            return
        if self.lean and self.problem.topic_spread:
            two = (self.held[partition, rack] == 2) & (self.most[partition, rack] == 1)  # noqa: PLR2004 - a pair
            self._pairs(partition[two], rack[two])
            partition, rack = partition[~two], rack[~two]
        key = np.full((self.problem.partition_count, self.racks), -1, np.int64)
        key[partition, rack] = np.arange(len(partition))
        entries = np.nonzero(self.surplus[self.partition, self.rack] & ~self.paired)[0]
        if not len(partition):
            return
        member = key[self.partition[entries], self.rack[entries]]
        group = self._merged(partition, rack, member, entries)
        count = int(group.max()) + 1
        node = self.net.add_nodes(count)
        most = self.most[partition, rack]
        self.net.supply(node + group, most)
        row = np.zeros(count, np.int64)
        row[group] = self.row_node + self.topic[partition] * self.racks + rack
        supply = np.bincount(group, weights=most, minlength=count).astype(np.int64)
        self.net.add_arcs(node + np.arange(count), row, supply, 0)
        _, pools = np.unique(group[member] * self.cells + self.cell[entries], return_inverse=True)
        self._keep_arcs(node + group[member], entries, pools)

    def _pairs(self, partition: Ints, rack: Ints) -> None:
        """Partitions with two replicas where one may be: the unit starts in one cell, may go over to the other, or leave.

        The start is where keeping the preferred leader counts, if it is one of the two. What may leave a cell is
        bounded by what starts there, so nobody needs a node of its own.
        """
        if not len(partition):
            return
        row_of = np.full((self.problem.partition_count, self.racks), -1, np.int64)
        row_of[partition, rack] = np.arange(len(partition))
        entries = np.nonzero(row_of[self.partition, self.rack] >= 0)[0]
        self.paired[entries] = True
        pair = row_of[self.partition[entries], self.rack[entries]]
        ends = entries[np.lexsort((-self.lead[entries], pair))].reshape(-1, 2)  # the start first
        cells, led = self.cell[ends], self.lead[ends[:, 0]]
        nodes = self.cell_node[cells]
        self.net.supply(nodes[:, 0], 1)
        over = self.net.add_arcs(nodes[:, 0], nodes[:, 1], 1, led)
        started, counts = np.unique(cells[:, 0] * 2 + led, return_counts=True)
        start, cost = started // 2, started % 2
        row = self.row_node + start // self.brokers * self.racks + self.problem.rack[start % self.brokers]
        away = self.net.add_arcs(self.cell_node[start], row, counts, cost)

        def read(flows: Ints) -> None:
            at = ends[np.arange(len(ends)), (flows[over] > 0).astype(np.int64)]
            leaving = np.bincount(start, weights=flows[away], minlength=self.cells).astype(np.int64)
            size = np.zeros(len(at), np.int64) if self.problem.size is None else self.problem.size[self.partition[at]]
            # Kept leaders leave last, large partitions before them.
            order = np.lexsort((size, self.lead[at], self.cell[at]))
            at = at[order]
            rank = np.arange(len(at)) - np.searchsorted(self.cell[at], self.cell[at])
            self.stays[at[rank >= leaving[self.cell[at]]]] = True
            there = np.bincount(self.cell[at], minlength=self.cells)
            self.overdrawn = np.maximum(leaving - there, 0)

        self.readers.append(read)

    def _merged(self, partition: Ints, rack: Ints, member: Ints, entries: Ints) -> Ints:
        """Group of each (partition, rack): those with the same brokers there and the same quota."""
        if self.problem.topic_spread:
            return np.arange(len(partition))
        order = np.lexsort((self.broker[entries], member))
        counts = np.bincount(member, minlength=len(partition))
        place_in = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((len(partition), int(counts.max()) + 2), -1, np.int64)
        table[member[order], place_in] = self.broker[entries][order]
        table[:, -2], table[:, -1] = self.most[partition, rack], rack
        return np.unique(table, axis=0, return_inverse=True)[1].ravel()

    def _free_groups(self) -> None:
        """Partitions that may choose their racks: by pattern of racks, or alone when they hold too much."""
        partition = np.nonzero(self.free)[0]
        if not len(partition):
            return
        table = np.concatenate(
            [self.topic[partition, None], self.problem.factor[partition, None], self.held[partition]], 1
        )
        alone = ~self.keeps_all[partition] | self.apart[partition]
        table = np.concatenate([table, np.where(alone, np.arange(len(partition)), -1)[:, None]], 1)
        group = _dense(table)
        count = int(group.max()) + 1
        self.group_of[partition] = group
        members = np.bincount(group, minlength=count)
        one = np.zeros(count, np.int64)
        one[group] = partition
        least, most = self.least[one] * members[:, None], self.most[one] * members[:, None]
        node = self.net.add_nodes(count)
        self.net.supply(node + np.arange(count), self.wanted[one] * members - least.sum(1))
        holds = np.zeros((count, self.racks), bool)
        entries = np.nonzero(self.free[self.partition])[0]
        holds[self.group_of[self.partition[entries]], self.rack[entries]] = True
        row = self.row_node + self.topic[one][:, None] * self.racks + np.arange(self.racks)
        through = row.copy()
        through[holds] = self.net.add_nodes(int(holds.sum())) + np.arange(int(holds.sum()))
        self.net.supply(through, least)
        group_at, rack_at = np.nonzero(most > least)
        span = self.net.add_arcs(node + group_at, through[group_at, rack_at], (most - least)[group_at, rack_at], 0)
        self.net.add_arcs(through[holds], row[holds], most[holds], 0)
        at = self.group_of[self.partition[entries]]
        _, pools = np.unique(at * self.cells + self.cell[entries], return_inverse=True)
        self._keep_arcs(through[at, self.rack[entries]], entries, pools)

        def read(flows: Ints) -> None:
            self.rack_units = least.copy()
            self.rack_units[group_at, rack_at] += flows[span]

        self.readers.append(read)

    def _expanded_partitions(self) -> None:
        """The full network: an arc from each expanded (partition, rack) to every broker of the rack."""
        partition = np.nonzero(self.expanded)[0]
        if not len(partition):
            return
        node = self.net.add_nodes(len(partition))
        rack_node = self.net.add_nodes(len(partition) * self.racks)
        through = rack_node + np.arange(len(partition) * self.racks).reshape(-1, self.racks)
        least, most = self.least[partition], self.most[partition]
        self.net.supply(node + np.arange(len(partition)), self.wanted[partition] - least.sum(1))
        self.net.supply(through, least)
        at, rack = np.nonzero(most > least)
        self.net.add_arcs(node + at, through[at, rack], (most - least)[at, rack], 0)
        cost = np.full((len(partition), self.brokers), self.scale, np.int64)
        index = np.full(self.problem.partition_count, -1, np.int64)
        index[partition] = np.arange(len(partition))
        own = np.nonzero(self.expanded[self.partition])[0]
        cost[index[self.partition[own]], self.broker[own]] = -self.lead[own]
        where, broker = np.nonzero(np.broadcast_to(self.problem.eligible, cost.shape))
        useful = most[where, self.problem.rack[broker]] > 0
        where, broker = where[useful], broker[useful]
        cells = self.topic[partition[where]] * self.brokers + broker
        span = self.net.add_arcs(through[where, self.problem.rack[broker]], self._into(cells), 1, cost[where, broker])

        def read(flows: Ints) -> None:
            used = flows[span] > 0
            self.direct.append((partition[where[used]], broker[used]))

        self.readers.append(read)

    def _rows(self) -> None:
        """Rows of (topic, rack): parallel arcs of rising cost to each cell: keep a leader, keep, receive."""
        at, rack = np.nonzero(self.simple)
        row_supply = np.bincount(
            self.topic[at] * self.racks + rack, weights=self.most[at, rack], minlength=self.topics * self.racks
        ).astype(np.int64)
        simple = np.nonzero(self.entry_simple)[0]
        cell, lead = self.cell[simple], self.lead[simple]
        leaders = np.bincount(cell, weights=lead, minlength=self.cells).astype(np.int64)
        held = np.bincount(cell, minlength=self.cells)
        cells = np.nonzero(np.tile(self.problem.eligible, self.topics))[0]
        self.row_of_cell = np.full(self.cells, -1, np.int64)
        self.row_of_cell[cells] = cells // self.brokers * self.racks + self.problem.rack[cells % self.brokers]
        plain = cells[self.cell_node[cells] < 0]
        low, high = np.zeros(self.cells, np.int64), np.full(self.cells, UNLIMITED, np.int64)
        low[plain], high[plain] = self.cell_low[plain], self.cell_high[plain]
        # A cell that healthy partitions fill never receives: its arc is left out, and its price raised afterwards.
        self.full = (self.cell_node >= 0) & (held >= self.cell_high)
        high[self.full] = held[self.full]
        self.net.supply(self.row_node + np.arange(len(row_supply)), row_supply)
        self.net.supply(self.row_node + self.row_of_cell[plain], -self.cell_low[plain])
        ends = [np.zeros(self.cells, np.int64), leaders, held, np.full(self.cells, UNLIMITED, np.int64)]
        segments: list[tuple[Ints, slice]] = []
        for step, cost in enumerate((-1, 0, self.scale)):
            room = np.clip(ends[step + 1], low, high) - np.clip(ends[step], low, high)
            some = cells[room[cells] > 0]
            segments.append(
                (some, self.net.add_arcs(self.row_node + self.row_of_cell[some], self._into(some), room[some], cost))
            )
        pool = np.full(self.cells, -1, np.int64)
        used = np.nonzero(held)[0]
        pool[used] = self.pool_count + np.arange(len(used))
        self.pool_count += len(used)
        self.entry_group[simple] = pool[cell]
        self.row_leaders, self.row_held, self.plain = leaders, held, plain

        def read(flows: Ints) -> None:
            total = np.where(self.cell_node < 0, low, 0)
            for some, span in segments:
                total[some] += flows[span]
            kept = np.minimum(total, held) - self.overdrawn
            kept_leaders = np.minimum(kept, leaders)
            self.kept_units.append((pool[used], kept[used], kept_leaders[used]))
            self.received += total - kept - self.overdrawn
            self.row_total = total

        self.readers.append(read)

    def _sink(self) -> None:
        base = np.zeros(self.brokers, np.int64)
        if self.problem.topic_spread:
            base = self.cell_low.reshape(self.topics, self.brokers).sum(0)
        low = np.maximum(self.problem.low - base, 0)
        high = np.maximum(self.problem.high - base, low)
        nodes = self.broker_node + np.arange(self.brokers)
        self.net.supply(nodes, -low)
        self.net.add_arcs(nodes, self.sink, high - low, 0)
        self.net.supply(self.sink, -int(self.net.total_supply().sum()))

    def _certificate(self, flows: Ints) -> Certificate | None:
        """Prices from distances; see `certificate` for what they mean. None when fewer moves are possible."""
        strict = self.scale > self.problem.partition_count
        unit, kept_leader = (self.scale, -1) if strict else (1, 0)
        tail, head, capacity, cost = self.net.flat()
        if not strict:
            cost = (cost >= self.scale).astype(np.int64)
        may_fail = self.scale not in {MOVES_ALONE, unit}
        distance = distances(
            self.net.nodes, (tail, head, capacity, cost), flows, rounds_max=_ROUNDS_MAX if may_fail else None
        )
        if distance is None:
            if may_fail:
                return None
            raise SolverFailedError(
                f"prices of {self.net.nodes} nodes computed: an optimal flow expected, a cycle of negative cost found; "
                "report it"
            )
        ground = distance[self.sink]
        u = np.where(self.problem.eligible, ground - distance[self.broker_node : self.broker_node + self.brokers], 0)
        w = np.zeros(self.cells, np.int64)
        if self.problem.topic_spread:
            plain = self.plain
            noded = self.cell_arcs[0]
            w[noded] = distance[self.broker_node + noded % self.brokers] - distance[self.cell_node[noded]]
            full = np.nonzero(self.full)[0]
            received_at = ground - distance[self.row_node + self.row_of_cell[full]] - unit
            w[full] = np.maximum(w[full], received_at - u[full % self.brokers])
            paid = ground - distance[self.row_node + self.row_of_cell[plain]]
            total, held, leaders = self.row_total[plain], self.row_held[plain], self.row_leaders[plain]
            following = np.where(total < leaders, kept_leader, np.where(total < held, 0, unit))
            last = np.where(total <= leaders, kept_leader, np.where(total <= held, 0, unit))
            lowest = paid - u[plain % self.brokers] - following
            highest = np.where(total > 0, paid - u[plain % self.brokers] - last, np.maximum(lowest, 0))
            w[plain] = np.clip(0, lowest, highest)
        priced = np.nonzero(w)[0]
        return Certificate(
            broker_price=u,
            cell_topic=priced // self.brokers,
            cell_broker=priced % self.brokers,
            cell_price=w[priced],
            leader_price=np.zeros(self.brokers, np.int64),
            scale=unit,
            kept_leader_reward=rewarded_leaders(self.problem) if strict else None,
        )


def _dense(table: Ints) -> Ints:
    """Index of each row among the distinct rows."""
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    new = np.concatenate([[0], np.cumsum((ordered[1:] != ordered[:-1]).any(1))])
    out = np.empty(len(table), np.int64)
    out[order] = new
    return out
