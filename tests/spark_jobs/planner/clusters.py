"""Small clusters for the planner's tests: drawn by Hypothesis, or of a size and kind."""

import numpy as np
from hypothesis import strategies as st

from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.model import ClusterState

KINDS = ("grow", "drain", "skewed", "rack broken", "more replicas", "fewer replicas")


def cluster(lists, *, racks=None, brokers=None, dead=(), drain=(), wanted=None, sizes=None, leaders=None, topics=None):
    """A state from replica lists (ids from 0), one topic `t` unless `topics` names one per partition."""
    count = brokers or 1 + max(max(replicas) for replicas in lists)
    names = topics or ["t"] * len(lists)
    seen = {}
    numbers = []
    for name in names:
        numbers.append(seen.get(name, 0))
        seen[name] = numbers[-1] + 1
    return ClusterState.from_columns(
        broker_ids=list(range(count)),
        racks=racks or [None] * count,
        live=[b not in dead for b in range(count)],
        draining=[b in drain for b in range(count)],
        topics=names,
        partitions=numbers,
        replica_offsets=np.cumsum([0, *map(len, lists)]),
        replica_ids=[b for replicas in lists for b in replicas],
        replication_factors=wanted,
        sizes=sizes,
        leaders=leaders,
    )


@st.composite
def clusters(draw, *, brokers_max=6, partitions_max=9, racks_max=3):
    """Any small cluster that can be planned: broken racks, dead and leaving brokers, changed replication factors."""
    brokers = draw(st.integers(2, brokers_max))
    rack_count = draw(st.integers(0, racks_max))
    racks = [f"r{draw(st.integers(0, rack_count - 1))}" for _ in range(brokers)] if rack_count else None
    state = draw(st.lists(st.sampled_from("lllld"), min_size=brokers, max_size=brokers))
    leaving = draw(st.sets(st.integers(0, brokers - 1), max_size=1))
    dead = [b for b in range(brokers) if state[b] == "d"]
    staying = [b for b in range(brokers) if b not in dead and b not in leaving]
    if not staying:
        dead, leaving, staying = [], set(), list(range(brokers))
    count = draw(st.integers(1, partitions_max))
    replica_list = st.lists(st.integers(0, brokers - 1), min_size=1, max_size=min(4, brokers), unique=True)
    lists = draw(st.lists(replica_list, min_size=count, max_size=count))
    one_factor = draw(st.booleans())
    factors = [draw(st.integers(1, min(3, len(staying)))) for _ in range(1 if one_factor else count)]
    topics = sorted(draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count)))
    return cluster(
        lists,
        racks=racks,
        brokers=brokers,
        dead=dead,
        drain=leaving,
        wanted=factors * count if one_factor else factors,
        topics=topics,
    )


@st.composite
def goals(draw):
    """Balance with and without topic spread, at some tolerance."""
    return Goals(
        topic_spread=draw(st.booleans()),
        tolerance=Tolerance.uniform(draw(st.integers(0, 2))),
        curve_tolerances=(),
    )


def of_kind(kind, *, brokers=12, partitions=240, racks=3, replicas=3, seed=1):
    """A cluster placed by a rack-alternating round robin, then disturbed as `kind` says."""
    rng = np.random.default_rng([seed, brokers, partitions, racks, KINDS.index(kind)])
    before = replicas + {"more replicas": -1, "fewer replicas": 1}.get(kind, 0)
    topic = np.sort(rng.integers(0, max(2, partitions // 20), partitions))
    order = np.argsort(np.arange(brokers) % max(1, racks), kind="stable").reshape(-1)
    lists = []
    for _ in range(partitions):
        start, step = int(rng.integers(brokers)), 1 + int(rng.integers(brokers - 1))
        ring = [int(order[(start + i * step) % brokers]) for i in range(brokers)] + list(range(brokers))
        chosen, used = [], set()
        for b in ring:
            if b not in chosen and (b % racks not in used or len(used) == racks):
                chosen.append(b)
                used.add(b % racks)
            if len(chosen) == before:
                break
        lists.append(chosen)
    if kind in {"skewed", "rack broken"}:
        for replicas_of in lists:
            for i, b in enumerate(replicas_of):
                if b < brokers // 4 and rng.random() < 0.6:
                    other = (b + racks * int(rng.integers(1, brokers // racks))) % brokers
                    if other not in replicas_of:
                        replicas_of[i] = other
    if kind == "rack broken":
        for replicas_of in lists[::9]:
            other = (replicas_of[0] + racks) % brokers
            if other not in replicas_of:
                replicas_of[1] = other
    total = brokers + (2 if kind == "grow" else 0)
    return cluster(
        lists,
        brokers=total,
        racks=[f"r{b % racks}" for b in range(total)] if racks > 1 else None,
        drain=[1] if kind == "drain" else [],
        wanted=[replicas] * partitions,
        sizes=rng.integers(1, 1_000, partitions).tolist(),
        topics=[f"t{t:03d}" for t in topic],
    )
