"""SQL over the history: the documented tables and every example of docs/snapshots.md, on the stored corpus."""

import re
from pathlib import Path

import pytest

from spark_jobs import query, schemas
from spark_jobs.io import snapshots as stored
from spark_jobs.io.errors import DatasetError
from spark_jobs.select_only import refusal

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "data" / "snapshots" / "format-1" / "store"
DOCUMENT = (ROOT / "docs" / "snapshots.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture(scope="module")
def tables(spark):
    found, problems = stored.find_snapshots(spark, [str(CORPUS)])
    assert not problems
    query.register(spark, found)
    return spark


# What each example finds in the corpus, in the order of the document: its columns, and its rows in any order.
FOUND = [
    ("cluster topic dates partitions_seen", [("corpus", "orders", 1, 1), ("corpus", "payments", 1, 1)]),
    ("cluster broker_id registrations dates_seen", []),
    ("cluster date leaders_changed partitions", [("corpus", "2026-03-01", 0, 3)]),
    ("cluster topic since dates", []),
    (
        "cluster date broker_id elsewhere preferred ratio",
        [("corpus", "2026-03-01", 1, 1, 2, 0.5), ("corpus", "2026-03-01", 2, 0, 1, 0.0)],
    ),
    ("cluster topic lives first_seen last_made", []),
    ("cluster date topics partitions more_than_before", [("corpus", "2026-03-01", 2, 3, None)]),
    ("cluster entity_type entity_name key values", []),
    (
        "cluster topic partition rack",
        [("corpus", "orders", 0, "r1"), ("corpus", "orders", 1, "r1"), ("corpus", "payments", 0, "r1")],
    ),
    (
        "cluster what which dates",
        [
            ("corpus", "delete_topics", "payments", 1),
            ("corpus", "preferred_replica_election", "orders", 1),
            ("corpus", "unreadable znode", "/brokers/topics/broken", 1),
        ],
    ),
]


@pytest.mark.parametrize(
    ("sql", "columns", "rows"),
    [(sql, *found) for sql, found in zip(EXAMPLES, FOUND, strict=True)],
    ids=[" ".join(sql.split())[:60] for sql in EXAMPLES],
)
def test_every_example_runs(tables, sql, columns, rows):
    assert refusal(tables, sql) is None
    frame = tables.sql(sql)
    assert frame.columns == columns.split()
    assert sorted((tuple(map(query._value, row)) for row in frame.collect()), key=str) == rows


def test_the_documented_columns_are_those_of_the_tables():
    for table, schema in schemas.INPUTS.items():
        (columns,) = re.findall(rf"^\| `{table}` \| ([^|]*) \|", DOCUMENT, re.MULTILINE)
        assert columns.split(", ") == [
            name for name in schema.names if name not in {"cluster", "snapshot_id", "taken_at"}
        ]


def test_a_query_becomes_a_document(tables, tmp_path):
    args = query.Args(
        inputs=(str(CORPUS),),
        sql="SELECT topic, partition, replicas, taken_at FROM partitions ORDER BY topic, partition",
        output=tmp_path / "out.json",
        rows_max=2,
    )
    query.run(tables, args)
    import json

    document = json.loads(args.output.read_text())
    assert document["columns"] == ["topic", "partition", "replicas", "taken_at"]
    assert document["rows"][0][:3] == ["orders", 0, [1, 2]]
    assert (len(document["rows"]), document["cut_off"], document["snapshots"]) == (2, True, 1)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("DROP TABLE x", "expected one SELECT over tables, found DropTable"),
        ("SELECT nope FROM partitions", "refused by Spark"),
    ],
)
def test_what_is_refused(tables, tmp_path, sql, text):
    with pytest.raises(DatasetError, match=text):
        query.run(tables, query.Args(inputs=(str(CORPUS),), sql=sql, output=tmp_path / "out.json"))


def test_without_snapshots(tables, tmp_path):
    with pytest.raises(DatasetError, match="found none"):
        query.run(tables, query.Args(inputs=(str(tmp_path),), sql="SELECT 1", output=tmp_path / "out.json"))
