"""Leader imbalance, and which partitions can be elected, on frames of a few rows."""

import pytest
from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas
from spark_jobs.transforms import imbalance
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames, rows_of

SKEWED = World(
    brokers={0: "a", 1: "b", 2: "c"},
    partitions=(
        ("orders", 0, (2, 0, 1), 2, (2, 0, 1)),
        ("orders", 1, (2, 0, 1), 0, (0, 1, 2)),
        ("orders", 2, (2, 0, 1), 0, (0, 1)),
        ("orders", 3, (2, 0, 1), -1, (1,)),
        ("orders", 4, (2, 0, 1), None, ()),
        ("orders", 5, (9, 0, 1), 0, (0, 1)),
        ("trash", 0, (1, 2), 2, (1, 2)),
    ),
    queued={"trash": 30},
)


def test_imbalance_counts_as_the_controller_does(spark):
    tables = frames(spark, SKEWED)
    result = imbalance.imbalance(tables["partitions"], facts_of(spark, tables))
    assertSchemaEqual(result.schema, schemas.IMBALANCE, ignoreNullable=True)
    names = ("broker_id", "live", "preferred_count", "imbalanced_count", "ratio", "triggers", "electable_count")
    assert rows_of(result, *names) == [
        (2, True, 5, 3, 0.6, True, 1),  # the partition without a state counts, the one led by nobody is misplaced
        (9, False, 1, 1, 1.0, True, 0),  # a dead broker appears; the queued topic's broker 1 does not
    ]


@pytest.mark.parametrize(
    ("version", "candidates"),
    [
        pytest.param("2.5", 0, id="a reassignment elsewhere blocks and the ISR does not matter"),
        pytest.param("3.3", 0, id="a reassignment elsewhere blocks"),
        pytest.param("3.4", 1, id="reassignments block no more, the ISR counts"),
    ],
)
def test_candidates_follow_the_version(spark, version, candidates):
    world = World(
        brokers={1: None, 2: None},
        partitions=(
            ("t", 0, (1, 2), 2, (1, 2)),
            ("t", 1, (1, 2), 2, (2,)),
            ("u", 0, (2, 1), 2, (2,), (1,), ()),
        ),
    )
    tables = frames(spark, world)
    found = facts_of(spark, tables, f'{{"default": {{"kafka_version": "{version}"}}}}')
    assert rows_of(imbalance.imbalance(tables["partitions"], found).where("broker_id = 1"), "candidate_count") == [
        (candidates,)
    ]


def test_every_partition_that_cannot_be_elected_has_a_reason(spark):
    tables = frames(spark, SKEWED)
    result = imbalance.imbalanced_partitions(tables["partitions"], facts_of(spark, tables))
    assertSchemaEqual(result.schema, schemas.IMBALANCED_PARTITIONS, ignoreNullable=True)
    assert rows_of(result, "topic", "partition", "electable", "reason") == [
        ("orders", 1, True, None),
        ("orders", 2, False, "preferred replica is not in the ISR"),
        ("orders", 3, False, "preferred replica is not in the ISR"),
        ("orders", 5, False, "preferred broker is not online"),
    ]
