"""From a flow to replica sets: which partitions give a replica up, and which of them receives which broker.

The flow counts; this module deals the counted units out to partitions without giving any of them a broker twice. Where
the network was only a bound, that may fail for some partitions: they are reported, and the caller expands them.
Everything is deterministic: the shuffles are seeded.
Source: docs/planning.md, "Why the number is minimal".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Bools, Ints
from spark_jobs.planner.errors import SolverFailedError
from spark_jobs.planner.flow import Flow
from spark_jobs.planner.network import Network

_SWAP_ROUNDS = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dealt:
    """Replica sets, or the partitions that could not be served."""

    sets: Ints  # [P, F] positions, kept ones first in their old order, then received ones; -1 padded
    failed: Ints  # partitions to be expanded; empty when `sets` is complete


def deal(problem: Problem, flow: Flow) -> Dealt:
    """Deals an optimal flow out: the sets, complete when `failed` is empty.

    Among equals small partitions leave first: fewer bytes are copied.
    """
    kept = _kept(problem, flow)
    need, failed = _slots(problem, flow, kept)
    partition, broker, stuck = _received(problem, flow, kept, need)
    failed = np.union1d(failed, stuck)
    return Dealt(sets=_sets(problem, flow, kept, partition, broker), failed=failed)


def _kept(problem: Problem, flow: Flow) -> Bools:
    """[N] entries that stay."""
    kept = np.zeros(len(flow.entry_partition), bool)
    pooled = np.nonzero(flow.entry_group >= 0)[0]
    free = flow.group_of[flow.entry_partition[pooled]] >= 0
    _choose(problem, flow, kept, pooled[~free], np.zeros(0, np.int64))
    # Partitions that choose their racks: those that have lost nothing yet lose first, or too few could change racks.
    choosing = pooled[free]
    rack = problem.rack[flow.entry_broker[choosing]]
    for g in range(len(problem.rack_brokers) if len(choosing) else 0):
        lost = np.bincount(
            flow.entry_partition[choosing], weights=(rack < g) & ~kept[choosing], minlength=problem.partition_count
        ).astype(np.int64)
        _choose(problem, flow, kept, choosing[rack == g], lost)
    direct_partition, direct_broker = flow.direct
    if len(direct_partition):
        given = np.sort(direct_partition * problem.broker_count + direct_broker)
        loose = np.nonzero(flow.entry_group < 0)[0]
        key = flow.entry_partition[loose] * problem.broker_count + flow.entry_broker[loose]
        at = np.minimum(np.searchsorted(given, key), len(given) - 1)
        kept[loose] = given[at] == key
    kept |= flow.entry_stays
    return _untangle(problem, flow, kept)


def _choose(problem: Problem, flow: Flow, kept: Bools, entries: Ints, lost: Ints) -> None:
    """Marks as many entries of each pool as its flow keeps: leaders first, then those that lost, then the largest."""
    pool, partition = flow.entry_group[entries], flow.entry_partition[entries]
    leads = flow.entry_column[entries] == 0
    size = np.zeros(len(entries), np.int64)
    if problem.size is not None:
        size = problem.size[partition]
    already = lost[partition] if len(lost) else size
    order = np.lexsort((partition, -size, -already, ~leads, pool))
    rank = np.arange(len(order)) - np.searchsorted(pool[order], pool[order])
    kept[entries[order]] = rank < flow.pool_kept[pool[order]]


def _untangle(problem: Problem, flow: Flow, kept: Bools) -> Bools:
    """Merged surplus groups: no partition may keep more in a rack than its quota, so choices are swapped."""
    rack = problem.rack[flow.entry_broker]
    key = flow.entry_partition * len(problem.rack_brokers) + rack
    held = np.bincount(key[kept], minlength=problem.partition_count * len(problem.rack_brokers))
    most = problem.rack_max[problem.factor].ravel()
    if (held <= most).all():
        return kept
    kept = kept.copy()
    pool_of = flow.entry_group
    # Units of one group are laid out over its partitions in turn: equal brokers are then never on one partition.
    crowded = np.unique(flow.entry_group[(held > most)[key] & kept])
    members = np.unique(key[np.isin(pool_of, crowded)])
    entries = np.nonzero(np.isin(key, members) & (pool_of >= 0))[0]
    signature = _signatures(key[entries], flow.entry_broker[entries])
    order = np.lexsort((flow.entry_broker[entries], signature))
    for chunk in np.split(order, np.nonzero(np.diff(signature[order]))[0] + 1):
        group = entries[chunk]
        owners = np.unique(key[group])
        turn = 0
        for pool in np.unique(pool_of[group]):
            of_pool = group[pool_of[group] == pool]
            units = int(flow.pool_kept[pool])
            by_owner = of_pool[np.argsort(key[of_pool])]
            kept[of_pool] = False
            kept[by_owner[(turn + np.arange(units)) % len(owners)]] = True
            turn += units
    return kept


def _signatures(key: Ints, broker: Ints) -> Ints:
    """[N] equal for entries whose (partition, rack) holds the same brokers."""
    order = np.lexsort((broker, key))
    starts = np.nonzero(np.concatenate([[True], np.diff(key[order]) != 0]))[0]
    lists = np.split(broker[order], starts[1:])
    table: dict[tuple[int, ...], int] = {}
    codes = np.array([table.setdefault(tuple(brokers.tolist()), len(table)) for brokers in lists], np.int64)
    out = np.empty(len(key), np.int64)
    out[order] = np.repeat(codes, np.diff(np.concatenate([starts, [len(key)]])))
    return out


def _slots(problem: Problem, flow: Flow, kept: Bools) -> tuple[Ints, Ints]:
    """[P, R] replicas each partition still needs per rack, and partitions of free groups that cannot be served."""
    racks = len(problem.rack_brokers)
    key = flow.entry_partition[kept] * racks + problem.rack[flow.entry_broker[kept]]
    held = np.bincount(key, minlength=problem.partition_count * racks).reshape(-1, racks)
    need = problem.rack_min[problem.factor] - held
    served = np.unique(flow.direct[0])
    need[served] = 0
    free = np.nonzero(flow.group_of >= 0)[0]
    if not len(free):
        return need, np.zeros(0, np.int64)
    need[free], failed = _free_slots(problem, flow, held, free)
    return need, failed


def _free_slots(problem: Problem, flow: Flow, held: Ints, free: Ints) -> tuple[Ints, Ints]:
    """Racks of the missing replicas of partitions that may choose: a small flow over classes of equal partitions."""
    racks = len(problem.rack_brokers)
    least = np.maximum(problem.rack_min[problem.factor[free]] - held[free], 0)
    room = problem.rack_max[problem.factor[free]] - held[free] - least
    wanted = np.asarray(problem.factors, np.int64)[problem.factor[free]] - held[free].sum(1) - least.sum(1)
    group = flow.group_of[free]
    table = np.concatenate([group[:, None], room, wanted[:, None]], 1)
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    starts = np.nonzero(np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(1)]))[0]
    counts = np.diff(np.concatenate([starts, [len(order)]]))
    kind = ordered[starts]
    groups = int(flow.group_of.max()) + 1
    demand = flow.rack_units - _per_group(group, held[free] + least, groups)
    net = Network()
    classes = net.add_nodes(len(kind))
    targets = net.add_nodes(groups * racks)
    relief = net.add_nodes(1)
    supply = kind[:, -1] * counts
    net.supply(classes + np.arange(len(kind)), supply)
    net.supply(targets + np.arange(groups * racks), -demand.ravel())
    rooms = np.maximum(kind[:, 1:-1], 0) * counts[:, None]
    at, rack = np.nonzero(rooms)
    span = net.add_arcs(classes + at, targets + kind[at, 0] * racks + rack, rooms[at, rack], 0)
    # What cannot be served passes through the relief node, at a price.
    out = net.add_arcs(classes + np.arange(len(kind)), relief, np.maximum(supply, 0), 1)
    spare = net.add_arcs(targets + np.arange(groups * racks), relief, np.maximum(-demand.ravel(), 0), 1)
    missing = net.add_arcs(relief, targets + np.arange(groups * racks), np.maximum(demand.ravel(), 0), 1)
    flows = net.solve("racks of the moved replicas")
    failed_groups = np.unique(
        np.concatenate(
            [
                kind[flows[out] > 0, 0],
                np.nonzero(flows[missing] > 0)[0] // racks,
                np.nonzero(flows[spare] > 0)[0] // racks,
            ]
        )
    )
    units = np.zeros((len(kind), racks), np.int64)
    units[at, rack] = flows[span]
    total = units.sum(1)
    # Laid out in turn over the partitions of a class, no partition gets one rack twice (its room is 0 or 1).
    which = np.repeat(np.arange(len(kind) * racks), units.ravel())
    first = np.cumsum(total) - total
    turn = (np.arange(len(which)) - np.repeat(first, total)) % counts[which // racks]
    rows = order[starts[which // racks] + turn]
    need = least.copy()
    np.add.at(need, (rows, which % racks), 1)
    return need, free[np.isin(group, failed_groups)]


def _per_group(group: Ints, values: Ints, groups: int) -> Ints:
    out = np.zeros((groups, values.shape[1]), np.int64)
    np.add.at(out, group, values)
    return out


def _received(problem: Problem, flow: Flow, kept: Bools, need: Ints) -> tuple[Ints, Ints, Ints]:
    """(partition, broker) of dealt replicas, and partitions that no swap could serve."""
    racks, brokers = len(problem.rack_brokers), problem.broker_count
    topic = problem.topic if problem.topic_spread else np.zeros_like(problem.topic)
    at, rack = np.nonzero(need > 0)
    times = need[at, rack]
    partition, rack = np.repeat(at, times), np.repeat(rack, times)
    evicted = np.ones(problem.partition_count, bool)
    evicted[flow.entry_partition[kept & (flow.entry_column == 0)]] = False
    slot_key = topic[partition] * racks + rack
    nth = np.arange(len(at)).repeat(times)
    nth = np.arange(len(partition)) - np.searchsorted(nth, nth)
    order = np.lexsort((partition, nth, ~evicted[partition], slot_key))
    partition, slot_key = partition[order], slot_key[order]
    cells = np.nonzero(flow.received.ravel())[0]
    units = flow.received.ravel()[cells]
    cell = np.repeat(cells, units)
    turn = np.arange(len(cell)) - np.repeat(np.cumsum(units) - units, units)
    unit_key = cell // brokers * racks + problem.rack[cell % brokers]
    order = np.lexsort((cell, turn, unit_key))
    broker, unit_key = cell[order] % brokers, unit_key[order]
    if len(broker) != len(partition) or (unit_key != slot_key).any():
        return _partial(slot_key, unit_key, partition, broker)
    if problem.rack_max.max() == 1:
        return partition, broker, np.zeros(0, np.int64)
    stay = np.full((problem.partition_count, problem.replicas.shape[1]), -1, np.int64)
    stay[flow.entry_partition[kept], flow.entry_column[kept]] = flow.entry_broker[kept]
    return _without_conflicts(partition, broker, slot_key, stay, problem.broker_count)


def _partial(slot_key: Ints, unit_key: Ints, partition: Ints, broker: Ints) -> tuple[Ints, Ints, Ints]:
    """Slots and units of some rows differ in number, because a free group failed there: those rows fail."""
    last = int(np.concatenate([slot_key, unit_key]).max(initial=-1)) + 1
    uneven = np.bincount(slot_key, minlength=last) != np.bincount(unit_key, minlength=last)
    good_slots, good_units = ~uneven[slot_key], ~uneven[unit_key]
    return partition[good_slots], broker[good_units], np.unique(partition[~good_slots])


def _without_conflicts(partition: Ints, broker: Ints, key: Ints, stay: Ints, brokers: int) -> tuple[Ints, Ints, Ints]:
    """Swaps brokers between slots of one row until no partition holds one twice."""
    rng = np.random.default_rng(0)
    broker = broker.copy()
    starts = np.searchsorted(key, key)
    ends = np.searchsorted(key, key, side="right")
    for _ in range(_SWAP_ROUNDS):
        bad = np.nonzero(_conflicts(partition, broker, stay, brokers))[0]
        if not len(bad):
            return partition, broker, np.zeros(0, np.int64)
        partner = starts[bad] + rng.integers(0, 1 << 30, len(bad)) % (ends[bad] - starts[bad])
        _, only = np.unique(partner, return_index=True)
        bad, partner = bad[only], partner[only]
        clear = ~np.isin(partner, bad)
        bad, partner = bad[clear], partner[clear]
        fits = ~(stay[partition[bad]] == broker[partner][:, None]).any(1)
        fits &= ~(stay[partition[partner]] == broker[bad][:, None]).any(1)
        bad, partner = bad[fits], partner[fits]
        broker[bad], broker[partner] = broker[partner], broker[bad]
    held = _holdings(partition, broker, stay)
    stuck = [
        int(partition[slot])
        for slot in np.nonzero(_conflicts(partition, broker, stay, brokers))[0].tolist()
        if not _swap_one(slot, partition, broker, held, range(int(starts[slot]), int(ends[slot])))
    ]
    return partition, broker, np.unique(np.asarray(stuck, np.int64))


def _conflicts(partition: Ints, broker: Ints, stay: Ints, brokers: int) -> Bools:
    """[S] slots whose partition keeps that broker, or gets it a second time."""
    bad = (stay[partition] == broker[:, None]).any(1)
    pair = partition * brokers + broker
    order = np.argsort(pair, kind="stable")
    again = np.zeros(len(pair), bool)
    again[order[1:]] = pair[order[1:]] == pair[order[:-1]]
    return np.asarray(bad | again, bool)


def _holdings(partition: Ints, broker: Ints, stay: Ints) -> dict[int, list[int]]:
    held: dict[int, list[int]] = {p: [int(b) for b in stay[p] if b >= 0] for p in np.unique(partition).tolist()}
    for p, b in zip(partition.tolist(), broker.tolist(), strict=True):
        held[p].append(b)
    return held


def _swap_one(slot: int, partition: Ints, broker: Ints, held: dict[int, list[int]], row: range) -> bool:
    """Finds a partner for one slot by trying all of its row."""
    mine = int(partition[slot])
    give = int(broker[slot])
    if held[mine].count(give) == 1:
        return True  # an earlier swap has solved it
    for other in row:
        theirs, take = int(partition[other]), int(broker[other])
        if take not in held[mine] and give not in held[theirs]:
            held[mine].remove(give)
            held[mine].append(take)
            held[theirs].remove(take)
            held[theirs].append(give)
            broker[slot], broker[other] = take, give
            return True
    return False


def _sets(problem: Problem, flow: Flow, kept: Bools, partition: Ints, broker: Ints) -> Ints:
    owners = [flow.entry_partition[kept], partition]
    brokers = [flow.entry_broker[kept], broker]
    column = [flow.entry_column[kept], np.full(len(partition), problem.replicas.shape[1])]
    direct_partition, direct_broker = flow.direct
    if len(direct_partition):
        old = np.append(problem.replicas[direct_partition], np.full((len(direct_partition), 1), -1), 1)
        new = ~(old == direct_broker[:, None]).any(1)
        owners.append(direct_partition[new])
        brokers.append(direct_broker[new])
        column.append(np.full(int(new.sum()), problem.replicas.shape[1]))
    owner, who, place = np.concatenate(owners), np.concatenate(brokers), np.concatenate(column)
    order = np.lexsort((who, place, owner))
    owner, who = owner[order], who[order]
    at = np.arange(len(owner)) - np.searchsorted(owner, owner)
    width = max(int(at.max(initial=0)) + 1, *problem.factors)
    if width > max(problem.factors) + problem.replicas.shape[1]:
        raise SolverFailedError(f"replicas dealt: at most {max(problem.factors)} a partition, {width} found; report it")
    out = np.full((problem.partition_count, width), -1, np.int64)
    out[owner, at] = who
    return out
