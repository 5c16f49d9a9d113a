"""SQL over the history: the documented tables and every example of docs/history.md, on the stored corpus."""

import json
import re
import time
from dataclasses import replace

import pyarrow as pa
import pytest
import sqlglot

from controller_core.adapters.snapshot import tables as tables_of_snapshots
from controller_core.adapters.snapshot.manifest import parse_manifest
from controller_core.adapters.snapshot.parquet import table_to_parquet
from controller_core.adapters.snapshot.znode_rows import znode_rows
from kafka_maintenance.operations.snapshots import local_query
from kafka_maintenance.operations.snapshots.catalog import identity_of
from spark_jobs import query, schemas
from spark_jobs.io import snapshots as stored
from spark_jobs.io.errors import DatasetError
from spark_jobs.json_values import as_json
from spark_jobs.select_only import refusal
from tests.kafka_maintenance.operations.snapshots.corpus import FORMAT_1
from tests.source_files import ROOT
from tests.spark_jobs.worlds import World, write

TABLES_DOCUMENT = (ROOT / "docs" / "snapshots.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "history.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def tables(spark):
    found, problems = stored.find_snapshots(spark, [str(FORMAT_1)])
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
    assert sorted((tuple(map(as_json, row)) for row in frame.collect()), key=str) == rows


# One statement for each thing on which engines are known to differ; every function of FUNCTIONS is in one of these or in an example.
ALIKE = (
    "SELECT cluster, topic, partition, leader, isr, size(isr), date FROM partitions ORDER BY cluster, date, topic, partition",
    "SELECT DISTINCT leader FROM partitions ORDER BY leader",  # where null stands
    "SELECT DISTINCT leader FROM partitions ORDER BY leader DESC LIMIT 2 OFFSET 1",
    "SELECT topic, sum(leader), avg(leader), min(isr), count(leader), count(*) FROM partitions GROUP BY topic",
    "SELECT sum(leader), avg(leader), max(date), count(*) FROM partitions WHERE topic = 'none'",  # of no row
    "SELECT count_if(leader = 1) FROM partitions WHERE topic = 'none'",
    "SELECT topic, partition, sum(partition) OVER (PARTITION BY topic ORDER BY partition) FROM partitions WHERE cluster = 'alpha'",
    "SELECT topic, lead(leader) OVER (PARTITION BY cluster, topic, partition ORDER BY taken_at) AS after, date FROM partitions",
    "SELECT * FROM (SELECT topic, row_number() OVER (PARTITION BY topic ORDER BY partition, date) AS k FROM partitions) WHERE k = 2",
    "SELECT topic, explode(isr) AS member FROM partitions",  # of null and of nothing
    "SELECT topic FROM partitions WHERE array_contains(replicas, 3) AND NOT array_contains(isr, 3)",
    "SELECT coalesce(leader, -7), if(leader IS NULL, 'none', 'led'), CASE WHEN leader > 1 THEN upper(topic) ELSE lower(topic) END FROM partitions",
    "SELECT upper(topic), length(topic), topic LIKE 'or%', topic IN ('orders', 'x'), (partition <= 1) = true, partition BETWEEN 1 AND 2 FROM partitions",
    "SELECT round(partition / 3, 2), partition / 2, -partition * 2 + 1 - 3 FROM partitions",
    "SELECT date, date_add(date, 1), date_sub(date, 31), date > '2026-03-01' FROM snapshots",
    "SELECT cluster, date, taken_at, zxid, consistent FROM snapshots",
    "SELECT cluster, max(taken_at) - min(taken_at), avg(taken_at - min) FROM (SELECT *, taken_at AS min FROM snapshots) GROUP BY cluster",
    "SELECT topic, ctime - taken_at, taken_at - ctime FROM requests",
    "SELECT topic FROM partitions EXCEPT SELECT topic FROM topics",
    "SELECT topic FROM partitions INTERSECT SELECT topic FROM topics UNION SELECT 'x'",
    "SELECT topic FROM partitions p WHERE EXISTS (SELECT 1 FROM requests r WHERE r.topic = p.topic)",
    "SELECT p.topic, b.rack FROM partitions p LEFT JOIN brokers b ON b.broker_id = p.leader AND b.snapshot_id = p.snapshot_id",
    "SELECT rack, collect_list(DISTINCT broker_id) FROM brokers WHERE broker_id = 1 GROUP BY rack",
    "SELECT first(topic) FROM partitions WHERE topic = 'orders'",
    "SELECT * FROM acls",
    "SELECT path, data, left_out, version, num_children, ephemeral_owner, acl, ctime, date FROM znodes ORDER BY cluster, date, path",
    "SELECT path, count(DISTINCT mzxid), max(mtime), sum(data_length) FROM znodes WHERE data LIKE '%1%' GROUP BY path",
)


@pytest.fixture(scope="module")
def history(spark, tmp_path_factory):
    """Snapshots of two clusters on three dates, with what is missing on sick ones; registered in Spark, and their folders."""
    root = tmp_path_factory.mktemp("history")
    partitions = (
        ("orders", 0, (1, 2, 3), 1, (1, 2)),
        ("orders", 1, (2, 3, 1), None, ()),
        ("Payments", 2, (3,), 3, (3,)),
        ("empty", 0, (), -1, ()),
    )
    request = ("delete_topics", "orders", None, None, 60)
    worlds = [
        replace(world.on(ago), partitions=partitions[: 4 - ago])
        for world in (
            World(cluster="alpha", brokers={1: "r1", 9: None}, requests=(request,), queued={"orders": 60}),
            World(cluster="beta", brokers={1: "r1", 3: "r2"}, bad_rows=(("/brokers/topics/x", "broken"),)),
        )
        for ago in range(3)
    ]
    folders = [write(world, root) for world in worlds]
    for ago, folder in enumerate(folders):
        _write_znodes(folder, ago)
    found, problems = stored.find_snapshots(spark, [str(root)])
    assert (len(found), problems) == (6, [])
    query.register(spark, found)
    query.register_znodes(spark, found)
    return spark, folders


def _write_znodes(folder, number):
    """Every znode of a snapshot: text, none, no text, a secret, and one of which nothing is known."""
    manifest = parse_manifest((folder / "manifest.json").read_bytes(), str(folder), "")
    stat = dict.fromkeys(tables_of_snapshots.STAT_COLUMNS, 1) | {
        "mzxid": 5 + number,
        "mtime": 1_700_000_000_123 + number,
    }
    rows = [
        {"path": "/a", "data": b"1%d" % number, **stat, "acl": '[[31, "world", "anyone"]]'},
        {"path": "/b", "data": None, **stat, "left_out": "secret"},
        {"path": "/c", "data": b"\xff", **stat, "ephemeral_owner": -5},
        {"path": "/d", "left_out": "no permission"},
    ]
    raw = pa.Table.from_pylist(rows, schema=tables_of_snapshots.RAW)
    (folder / "znodes.parquet").write_bytes(table_to_parquet(znode_rows(raw, identity_of(manifest))))


@pytest.mark.parametrize("sql", [*EXAMPLES, *ALIKE], ids=lambda sql: " ".join(sql.split())[:70])
def test_duckdb_answers_what_spark_answers(history, sql):
    spark, folders = history
    statement = local_query.translated(sql)
    assert statement is not None, "this statement would be Spark's"
    frame, found = spark.sql(sql), local_query.answer(statement, folders, 10_000, scratch=folders[0] / "scratch")
    assert found["types"] == [kind for _, kind in frame.dtypes]
    rows = [[as_json(value) for value in row] for row in frame.collect()]
    if "ORDER BY" in sql.rpartition(")")[2] and sql in ALIKE:
        assert found["rows"] == rows
    else:
        assert sorted(found["rows"], key=str) == sorted(rows, key=str)
    if sql in EXAMPLES:
        assert found["columns"] == frame.columns


def test_no_function_is_trusted_without_a_comparison():
    trees = [sqlglot.parse_one(sql, read="spark") for sql in (*EXAMPLES, *ALIKE)]
    used = {type(node).__name__ for tree in trees for node in tree.walk()}
    assert used >= local_query.FUNCTIONS | local_query.PARTS - {"Boolean"}, local_query.FUNCTIONS - used


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT topic, b FROM partitions LATERAL VIEW explode(replicas) x AS b",
        "SELECT percentile(leader, 0.5) FROM partitions",  # a function that nobody compared
        "SELECT leader / partition FROM partitions",  # Spark fails where the divisor is 0
        "SELECT 1 / count(*) FROM partitions",
        "SELECT max(date) - min(date) FROM snapshots",  # days to DuckDB, an interval to Spark
        "SELECT * FROM findings",  # a result of the analysis
        "SELECT * FROM parquet.`/etc`",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT 1; SELECT 2",
        "DROP TABLE topics",
        "COPY topics TO '/tmp/x'",
        "SELECT (",
    ],
)
def test_anything_else_is_left_to_spark(sql):
    assert local_query.translated(sql) is None


def test_rows_of_another_cluster_are_named(tmp_path):
    ours, theirs = World(cluster="alpha", brokers={1: None}), World(cluster="beta", brokers={1: None})
    place, other = write(ours, tmp_path), write(theirs, tmp_path)
    (place / "brokers.parquet").write_bytes((other / "brokers.parquet").read_bytes())
    (reason,) = local_query.foreign_rows([place, other]).values()
    assert "holds rows of cluster 'beta', expected 'alpha' only" in reason or "holds rows of snapshot_id" in reason


def test_the_documented_columns_are_those_of_the_tables():
    for table, schema in schemas.INPUTS.items():
        (columns,) = re.findall(rf"^\| `{table}` \| ([^|]*) \|", TABLES_DOCUMENT, re.MULTILINE)
        assert columns.split(", ") == [
            name for name in schema.names if name not in {"cluster", "snapshot_id", "taken_at"}
        ]


def test_the_documented_columns_of_znodes():
    (columns,) = re.findall(r"^\| `znodes` \(only in `query`\) \| ([^|]*) \|", TABLES_DOCUMENT, re.MULTILINE)
    assert columns.split(", ") == tables_of_snapshots.ZNODES.names[3:]


def test_a_query_becomes_a_document(tables, tmp_path):
    args = query.Args(
        inputs=(str(FORMAT_1),),
        sql="SELECT topic, partition, replicas, taken_at FROM partitions ORDER BY topic, partition",
        output=tmp_path / "out.json",
        rows_max=2,
    )
    query.run(tables, args)
    document = json.loads(args.output.read_text())
    assert document["columns"] == ["topic", "partition", "replicas", "taken_at"]
    assert document["rows"][0][:3] == ["orders", 0, [1, 2]]
    assert (len(document["rows"]), document["cut_off"], document["snapshots"]) == (2, True, 1)


def test_every_kind_of_value_has_its_place_in_the_document(tables, tmp_path):
    sql = (
        "SELECT taken_at - TIMESTAMP'2026-03-01' > INTERVAL '0' DAY, DATE'2026-03-03' - DATE'2026-03-01', "
        """TIMESTAMP'2026-03-01' - TIMESTAMP'2026-03-01 00:00:01.5', parse_json('{"a": [1]}'), """
        "map(1, array(double('nan'))), double('inf'), double('-inf') FROM snapshots"
    )
    args = query.Args(inputs=(str(FORMAT_1),), sql=sql, output=tmp_path / "out.json")
    query.run(tables, args)
    (row,) = json.loads(args.output.read_text(), parse_constant=lambda name: f"no JSON: {name}")["rows"]
    assert row == [True, 172_800.0, -1.5, '{"a":[1]}', {"1": ["NaN"]}, "Infinity", "-Infinity"]


@pytest.fixture
def far_from_utc(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_utc", "submitted_here")
def test_times_are_utc_wherever_the_driver_runs(tmp_path):
    """Also those that a clock of New York does not have, and has twice."""
    sql, output = tmp_path / "sql", tmp_path / "out.json"
    sql.write_text(
        "SELECT taken_at, TIMESTAMP'2026-03-08 02:30:00', array(TIMESTAMP'2026-11-01 06:30:00'), "
        "TIMESTAMP_NTZ'2026-03-08 02:30:00' FROM snapshots"
    )
    assert query.main(["--input", str(FORMAT_1), "--sql-file", str(sql), "--output", str(output)]) == query.DONE
    (row,) = json.loads(output.read_text())["rows"]
    assert row == ["2026-03-01T12:00:00", "2026-03-08T02:30:00", ["2026-11-01T06:30:00"], "2026-03-08T02:30:00"]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("DROP TABLE x", "expected one SELECT over tables, found DropTable"),
        ("SELECT nope FROM partitions", "refused by Spark"),
        ("SELECT map(array(1), 2)", "a JSON document can have .* unhashable type: 'list'; select it as text"),
        ("SELECT DATE'+12345-01-01'", "the years 1 to 9999, .* year 12345 is out of range"),
        ("SELECT DATE'+5881580-07-10'", "the years 1 to 9999"),
        ("SELECT TIMESTAMP'+294247-01-10 04:00:54'", "the years 1 to 9999"),
    ],
)
def test_what_is_refused(tables, tmp_path, sql, text):
    with pytest.raises(DatasetError, match=text):
        query.run(tables, query.Args(inputs=(str(FORMAT_1),), sql=sql, output=tmp_path / "out.json"))


def test_without_snapshots(tables, tmp_path):
    with pytest.raises(DatasetError, match="found none"):
        query.run(tables, query.Args(inputs=(str(tmp_path),), sql="SELECT 1", output=tmp_path / "out.json"))
