"""Replicas that lie too close: more of them in one rack than an even spread would put there."""

import random
from collections import Counter

import pytest

from spark_jobs.planner.bounds import rack_quota
from spark_jobs.transforms import partition_findings
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames

RACKS = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}
TOO_CLOSE = {
    "two and two": (RACKS, (1, 2, 4, 5), None),
    "three and one": (RACKS, (1, 2, 3, 4), "a: 3, b: 1; evenly spread a rack holds 2 to 2"),
    "one rack of two": (RACKS, (1, 2), "a: 2; evenly spread a rack holds 1 to 1"),
    "three replicas in two racks": (RACKS, (1, 2, 4), None),
    "too few in one": (
        {**RACKS, 7: "c", 8: "c", 9: "c"},
        (1, 2, 3, 4, 5, 6, 7),
        "a: 3, b: 3, c: 1; evenly spread a rack holds 2 to 3",
    ),
    "a rack of one broker is full": ({1: "a", 4: "b", 5: "b"}, (1, 4, 5), None),
    "the third may be in the other rack": (RACKS, (1, 2, 99), None),
    "wherever the fourth is, three are too many": (RACKS, (1, 2, 3, 99), "a: 3, not known: 1; evenly"),
    "nothing is known": (RACKS, (98, 99), None),
    "a broker without a rack: Kafka spreads over none": ({**RACKS, 7: None}, (1, 2, 3), None),
    "one rack only": (dict.fromkeys(RACKS, "a"), (1, 2, 3), None),
}
"""Of each cluster: the rack of each broker, the replicas of its partition, and what is found, None for nothing."""


@pytest.fixture(scope="module")
def rack_violations(spark):
    """What is found in each cluster of TOO_CLOSE that has a violation."""
    fleet = (
        World(cluster=name, brokers=brokers, partitions=(("t", 0, replicas, replicas[0], replicas),))
        for name, (brokers, replicas, _) in TOO_CLOSE.items()
    )
    tables = frames(spark, *fleet)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    rows = result.where("kind = 'rack_violation'").collect()
    assert len(rows) == len({row["cluster"] for row in rows})
    return {row["cluster"]: row["detail"] for row in rows}


@pytest.mark.parametrize("cluster", TOO_CLOSE)
def test_replicas_that_lie_too_close(rack_violations, cluster):
    _, _, detail = TOO_CLOSE[cluster]
    assert (cluster in rack_violations) == (detail is not None)
    assert detail is None or detail in rack_violations[cluster]


def test_a_rack_violation_is_what_the_planner_would_mend(spark):
    """Against the planner's quota, on random clusters whose brokers are all there."""
    dice = random.Random(7)
    fleet = []
    for number in range(60):
        brokers = {broker: dice.choice("abcd"[: 1 + number % 4]) for broker in range(1, dice.randint(2, 9))}
        lists = [tuple(dice.sample(sorted(brokers), dice.randint(1, len(brokers)))) for _ in range(8)]
        rows = tuple(("t", place, replicas, replicas[0], replicas) for place, replicas in enumerate(lists))
        fleet.append(World(cluster=f"c{number:02}", brokers=brokers, partitions=rows))
    expected = {
        (world.cluster, row[1])
        for world in fleet
        for row in world.partitions
        if not within_quota(Counter(world.brokers[broker] for broker in row[2]), Counter(world.brokers.values()))
    }
    tables = frames(spark, *fleet)
    result = partition_findings.partition_findings(tables["partitions"], facts_of(spark, tables), tables["configs"])
    found = result.where("kind = 'rack_violation'").select("cluster", "partition").collect()
    assert {tuple(row) for row in found} == expected
    assert 50 < len(expected) < 400


def within_quota(held, sizes):
    least, most = rack_quota(held.total(), list(sizes.values()))
    return all(low <= held[rack] <= high for rack, low, high in zip(sizes, least, most, strict=True))
