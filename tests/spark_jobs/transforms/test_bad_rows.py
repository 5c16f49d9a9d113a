"""Rows that contradict themselves are set aside with a reason."""

import pytest
from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas
from spark_jobs.transforms import bad_rows
from tests.spark_jobs.worlds import World, frame, rows_of


def test_bad_rows_are_set_aside_with_a_reason(spark):
    good = World(brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),))
    rows = good.rows("partitions")
    place = {name: index for index, name in enumerate(schemas.PARTITIONS.names)}

    def changed(number, **values):
        row = list(rows[0])
        for name, value in {"partition": number, **values}.items():
            row[place[name]] = value
        return tuple(row)

    bad = [
        changed(1, replicas=[], preferred_leader=None),
        changed(2, replicas=[1, 1]),
        changed(3, replicas=[-4], preferred_leader=-4),
        changed(4, preferred_leader=2),
        changed(5, isr=None),
        changed(6, isr=[1, 1]),
        changed(7, isr=[-1]),
        changed(8, leader=-2),
        changed(9, leader_epoch=-1),
        changed(-1),
        changed(0),
    ]
    partitions = spark.createDataFrame([*rows, *bad], schemas.PARTITIONS)
    judged = bad_rows.with_reason(partitions)
    refused = bad_rows.refused_rows(judged, frame(spark, "bad_rows", World(bad_rows=(("/x", "not JSON"),))))
    assertSchemaEqual(refused.schema, schemas.REFUSED_ROWS, ignoreNullable=True)
    assert rows_of(bad_rows.good_partitions(judged), "topic", "partition") == [("t", 0)]
    assert rows_of(refused, "path", "reason") == [
        ("/brokers/topics/t/partitions/-1", "partition number is negative"),
        ("/brokers/topics/t/partitions/0", "another row has the same topic and partition"),
        ("/brokers/topics/t/partitions/1", "replica list is empty"),
        ("/brokers/topics/t/partitions/2", "replica list names a broker twice"),
        ("/brokers/topics/t/partitions/3", "replica list holds null or a negative broker id"),
        ("/brokers/topics/t/partitions/4", "preferred_leader is not the first replica"),
        ("/brokers/topics/t/partitions/5", "leader, isr and epochs are partly null"),
        ("/brokers/topics/t/partitions/6", "ISR names a broker twice"),
        ("/brokers/topics/t/partitions/7", "ISR holds null or a negative broker id"),
        ("/brokers/topics/t/partitions/8", "leader is neither a broker id nor -1"),
        ("/brokers/topics/t/partitions/9", "leader epoch is negative"),
        ("/x", "not JSON"),
    ]


@pytest.mark.parametrize("length", range(1, 7))
def test_a_hole_and_a_broker_named_twice_are_seen_in_each_place_of_a_list(spark, length):
    good = World(brokers={1: None}, partitions=(("t", 0, tuple(range(1, length + 1)), 1, (1,)),))
    (row,) = good.rows("partitions")
    columns = schemas.PARTITIONS.names
    lists: list[list[int | None]] = [list(range(1, length + 1)) for _ in range(3 * length)]
    for place in range(length):
        lists[place][place] = None
        lists[length + place][place] = -1
        lists[2 * length + place][place] = (place + 1) % length + 1  # what its neighbour is
    changed = [dict(zip(columns, row, strict=True)) | {"partition": n + 1, "isr": each} for n, each in enumerate(lists)]
    changed += [{**each, "replicas": each["isr"], "isr": [1], "partition": each["partition"] + 100} for each in changed]
    rows = [row, *(tuple(each[name] for name in columns) for each in changed)]
    judged = bad_rows.with_reason(spark.createDataFrame(rows, schemas.PARTITIONS))
    holes, twice = "replica list holds null or a negative broker id", "replica list names a broker twice"
    isr_holes, isr_twice = "ISR holds null or a negative broker id", "ISR names a broker twice"
    expected: list[str | None] = [
        *[isr_holes] * (2 * length),
        *[isr_twice] * length,
        *[holes] * (2 * length),
        *[twice] * length,
    ]
    if length == 1:  # one broker is its own neighbour: nothing is wrong with the last list of each kind
        expected[2] = expected[5] = None
    assert [each["reason"] for each in judged.orderBy("partition").collect()] == [None, *expected]
