"""Clusters of the planning benchmark: Kafka-like placement, topics of very different sizes, then a disturbance."""

import numpy as np

SIZES = {"S": (6, 300), "M": (30, 6_000), "L": (100, 60_000), "XL": (200, 200_000)}
KINDS = ("grow", "drain", "skewed", "leader skew", "rack broken", "more replicas", "fewer replicas")


def columns(size, kind, *, racks=3, replicas=3, seed=1):
    """Arguments of `ClusterState.from_columns`: what a decoded snapshot holds."""
    brokers, partitions = SIZES[size]
    rng = np.random.default_rng([seed, brokers, racks, KINDS.index(kind)])
    before = replicas + {"more replicas": -1, "fewer replicas": 1}.get(kind, 0)
    topic, number = _topics(partitions, rng)
    lists = _placed(topic, number, brokers, racks, before, rng)
    if kind in {"skewed", "rack broken"}:
        _skew(lists, brokers, racks, rng)
    if kind == "rack broken" and racks > 1:
        _break_racks(lists, brokers, racks, rng)
    if kind in {"skewed", "leader skew"}:
        _favour(lists, brokers, 0.7 if kind == "leader skew" else 0.3, rng)
    total = brokers + (max(1, brokers // 10) if kind == "grow" else 0)
    return {
        "broker_ids": np.arange(total) + 1001,
        "racks": [f"r{b % racks}" if racks > 1 else None for b in range(total)],
        "draining": np.arange(total) == (brokers // 2 if kind == "drain" else -1),
        "topics": topic,
        "topic_names": [f"topic-{t:05d}" for t in range(int(topic.max()) + 1)],
        "partitions": number,
        "replica_offsets": np.arange(partitions + 1) * before,
        "replica_ids": (lists + 1001).ravel(),
        "replication_factors": np.full(partitions, replicas),
        "sizes": np.exp(rng.normal(21, 1.5, int(topic.max()) + 1))[topic].astype(np.int64)
        + rng.integers(0, 10**6, partitions),
    }


def _topics(partitions, rng):
    count = max(3, int(partitions**0.68))
    share = 1 / np.arange(1, count + 1) ** 0.9
    sizes = np.maximum(1, np.minimum(share / share.sum() * partitions, partitions // 50 + 3).astype(int))
    while (rest := partitions - sizes.sum()) > 0:
        sizes[rng.integers(0, count, min(rest, count))] += 1
    while (rest := sizes.sum() - partitions) > 0:
        sizes[np.argsort(-sizes)[: min(rest, count)]] -= 1
    rng.shuffle(sizes)
    topic = np.repeat(np.arange(count), sizes)
    return topic, np.arange(partitions) - np.searchsorted(topic, topic)


def _placed(topic, number, brokers, racks, replicas, rng):
    """Replica j of a partition is in the j-th rack after its first; all racks are walked evenly from a random start."""
    start, shift = rng.integers(0, brokers, topic.max() + 1)[topic], rng.integers(0, brokers, topic.max() + 1)[topic]
    lists = np.empty((len(topic), replicas), np.int64)
    for j in range(replicas):
        rack = (number + start + j) % racks
        inside = (brokers - rack + racks - 1) // racks
        lists[:, j] = rack + racks * ((start + number // racks + j * (1 + shift % 3) + j // racks) % inside)
    _repair_repeats(lists, brokers, racks)
    return lists


def _repair_repeats(lists, brokers, racks):
    for _ in range(brokers):
        ordered = np.sort(lists, 1)
        rows = np.nonzero((ordered[:, 1:] == ordered[:, :-1]).any(1))[0]
        if not len(rows):
            return
        lists[rows, -1] = (lists[rows, -1] + racks) % (brokers - brokers % racks)


def _skew(lists, brokers, racks, rng):
    """Brokers were lost, and their replicas went by hand to a few favourites of the same rack."""
    for lost in rng.permutation(brokers)[: max(2, brokers // 8)]:
        rows, columns_ = np.nonzero((lists == lost) & (rng.random(lists.shape) < 0.6))
        favourites = np.arange(lost % racks, brokers, racks)[: max(2, brokers // racks // 3)]
        new = favourites[rng.integers(0, len(favourites), len(rows))]
        fits = ~(lists[rows] == new[:, None]).any(1)
        lists[rows[fits], columns_[fits]] = new[fits]


def _break_racks(lists, brokers, racks, rng):
    rows = np.nonzero(rng.random(len(lists)) < 0.05)[0]
    wrong = (lists[rows, 0] + racks) % brokers
    fits = ~(lists[rows] == wrong[:, None]).any(1) & (wrong % racks == lists[rows, 0] % racks)
    lists[rows[fits], 1] = wrong[fits]


def _favour(lists, brokers, share, rng):
    """Some brokers stand first in most lists they are in."""
    favoured = (rng.random(brokers) < 0.3)[lists] & (rng.random(len(lists)) < share)[:, None]
    first = favoured.argmax(1)
    rows = np.nonzero(favoured.any(1) & (first > 0))[0]
    lists[rows, 0], lists[rows, first[rows]] = lists[rows, first[rows]].copy(), lists[rows, 0].copy()
