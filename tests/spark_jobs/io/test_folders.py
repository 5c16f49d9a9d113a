"""Reading and writing name what differs."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller_core.adapters.snapshot import tables
from spark_jobs import schemas, settings
from spark_jobs.io import datasets, folders
from spark_jobs.io import snapshots as stored
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.io.errors import DatasetError
from tests.spark_jobs.worlds import DAY, World, write

WORLD = World(brokers={1: "a"}, partitions=(("t", 0, (1,), 1, (1,)),))


def test_the_tables_are_those_of_the_snapshot():
    assert [(n, f.name) for n, table in tables.TABLES.items() for f in table if tables.came_later(f)] == [
        ("cluster", "version_znodes")
    ]
    for name, schema in schemas.INPUTS.items():
        ours, theirs = arrow_schema(schema), tables.TABLES[name]
        assert [(field.name, field.type) for field in ours] == [(field.name, field.type) for field in theirs], name


def test_snapshots_are_found_at_any_depth(spark, tmp_path):
    folders = [write(WORLD.on(day), tmp_path / "in") for day in (1, 0)]
    analysis = tmp_path / "in" / "analysis" / "manifest.json"  # published into the same store: no snapshot, no problem
    analysis.parent.mkdir()
    analysis.write_text('{"kind": "analysis"}')
    for inputs in (
        *([str(tmp_path)], [str(folder) for folder in folders], [f"file://{tmp_path}/in/"]),
        *([f"file:{tmp_path}/in"], [f"{tmp_path}/in/../in"]),
    ):
        found, problems = stored.find_snapshots(spark, inputs)
        assert [(snapshot.cluster, snapshot.date) for snapshot in found] == [
            ("alpha", "2026-11-19"),
            ("alpha", "2026-11-20"),
        ]
        assert problems == []
        assert stored.damaged(spark, [(snapshot, "partitions") for snapshot in found]) == []
    assert stored.read_table(spark, found, "partitions").count() == 2
    assert stored.read_table(spark, [], "partitions").count() == 0


def _without_column(folder):
    path = folder / "partitions.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["leader"]), path)


def _of_another_type(folder):
    path = folder / "brokers.parquet"
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.set_column(3, "broker_id", pa.array(["1"])), path)


def _with_fewer_rows(folder):
    path = folder / "topics.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).slice(0, 0), path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(_without_column, "table 'partitions' has no column 'leader' (expected int32)", id="column lost"),
        pytest.param(_of_another_type, "column 'broker_id' is string, expected int32", id="another type"),
        pytest.param(_with_fewer_rows, "holds 0 rows, its manifest says 1", id="rows lost"),
        pytest.param(lambda f: (f / "configs.parquet").write_bytes(b"junk"), "cannot be read", id="no Parquet"),
        pytest.param(lambda f: (f / "configs.parquet").unlink(), "cannot be read", id="file lost"),
        pytest.param(
            lambda f: (f / "manifest.json").write_text("{}"), "KeyError: 'format_version'", id="manifest empty"
        ),
    ],
)
def test_a_snapshot_that_cannot_be_read_is_a_problem_of_its_cluster(spark, tmp_path, damage, words):
    good, bad = (
        write(WORLD, tmp_path),
        write(World(cluster="beta", brokers={1: None}, partitions=WORLD.partitions), tmp_path),
    )
    damage(bad)
    found, (problem,) = stored.find_snapshots(spark, [str(tmp_path)])
    assert [snapshot.uri for snapshot in found] == [str(good)]
    assert (problem.cluster, problem.date) == ("beta", str(DAY))
    assert words in problem.reason


def test_a_snapshot_older_than_a_column_has_nulls_there(spark, tmp_path):
    old, new = World(cluster="old"), World(cluster="new", controller={"version_znodes": ["/feature"]})
    path = write(old, tmp_path) / "cluster.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["version_znodes"]), path)
    write(new, tmp_path)
    found, problems = stored.find_snapshots(spark, [str(tmp_path)])
    assert problems == []
    rows = stored.read_table(spark, found, "cluster").collect()
    assert {row["cluster"]: row["version_znodes"] for row in rows} == {"old": None, "new": ["/feature"]}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param("cluster string", "lacks column 'snapshot_id' (string)", id="missing"),
        pytest.param("cluster string, snapshot_id int", "'snapshot_id' is int, expected string", id="type"),
        pytest.param(
            "cluster string, snapshot_id string, stage string, reason string, x int",
            "does not know: ['x']",
            id="surplus",
        ),
    ],
)
def test_writing_names_the_column_that_differs(spark, columns, words):
    frame = spark.createDataFrame([], columns)
    with pytest.raises(DatasetError) as raised:
        datasets.checked(frame, schemas.NOT_ANALYSED, "not_analysed")
    assert words in str(raised.value)


def test_settings_inherit_and_refuse_what_they_do_not_know():
    found = settings.parse_settings(
        '{"default": {"min_insync_replicas": 2}, "clusters": {"a": {"kafka_version": "2.4"}}}'
    )
    assert found.of("a") == settings.ClusterSettings(kafka_version="2.4", min_insync_replicas=2)
    assert found.of("b") == settings.ClusterSettings(min_insync_replicas=2)
    for text, words in (
        ('{"default": {"colour": 1}}', "found ['colour']"),
        ('{"cluster": {}}', "found ['cluster']"),
        ('{"default": {"delete_topic_enable": "false"}}', "delete_topic_enable: expected bool, found 'false'"),
        ('{"default": {"min_insync_replicas": 0}}', "min_insync_replicas: expected int of at least 1, found 0"),
        ("[]", "expected JSON with the objects"),
        ("{", "expected JSON with the objects"),
    ):
        with pytest.raises(settings.SettingsError) as raised:
            settings.parse_settings(text)
        assert words in str(raised.value)


def test_settings_of_one_cluster_that_cannot_be_used_hold_up_no_other():
    found = settings.parse_settings('{"clusters": {"a": {"delete_topic_enable": "false"}, "b": {}}}')
    assert found.of("b") == found.of("c") == settings.ClusterSettings()
    with pytest.raises(settings.SettingsError, match="settings of 'a' not read: delete_topic_enable: expected bool"):
        found.of("a")


@pytest.mark.parametrize(
    ("znodes", "kafka", "reason", "deletes", "unclean"),
    [
        pytest.param(None, "0.10.2", "nothing that a later", False, True, id="a snapshot from before they were noted"),
        pytest.param([], "0.10.2", "nothing that a later", False, True, id="none of them"),
        pytest.param(
            ["/latest_producer_id_block"], "0.11.0", "/latest_producer_id_block exists", False, False, id="0.11"
        ),
        pytest.param(
            ["/log_dir_event_notification", "/latest_producer_id_block"],
            *("1.0", "/log_dir_event_notification exists", True, False),
            id="1.0 to 2.0",
        ),
    ],
)
def test_a_version_nobody_named_is_told_by_znodes(znodes, kafka, reason, deletes, unclean):
    row = {
        **dict.fromkeys(("broker_json", "topic_json", "controller_json_version", "recovery")),
        "cluster": "old",
        "snapshot_id": "1",
        "controller_epoch": 7,
        "controller_epoch_version": 6,
        "version_znodes": znodes,
    }
    rules = settings.rules_of(settings.parse_settings(""), row)
    assert (rules["kafka_version"], rules["deletion_enabled"]) == (kafka, deletes)
    assert rules["unclean_election_default"] is unclean
    assert rules["version_reason"].startswith(reason)


def test_small_files_lie_beside_the_tables(spark, tmp_path):
    place = folders.folder(spark, str(tmp_path / "out"))
    place.write("plans/a.json", json.dumps({}).encode())
    assert place.read("plans/a.json") == b"{}"
    assert place.rows("nothing") == []
    assert (place.row_count("nothing"), place.counted("nothing", ["kind"])) == (0, [])


def test_rows_are_read_up_to_a_limit_and_in_the_columns_that_are_wanted(spark, tmp_path):
    (tmp_path / "found").mkdir()
    for part in (0, 1):
        columns = {"kind": ["a"] * 2_000, "number": range(part * 2_000, part * 2_000 + 2_000)}
        pq.write_table(pa.table(columns), tmp_path / "found" / f"part-{part}.parquet")
    place = folders.folder(spark, str(tmp_path))
    assert place.rows("found", 2_001, ["number"]) == [{"number": number} for number in range(2_001)]
    assert len(place.rows("found")) == 4_000
    place.remove("found/part-0.parquet")
    assert place.rows("found", 1) == [{"kind": "a", "number": 2_000}]


def test_other_bytes_than_the_manifest_names_are_a_problem_of_their_cluster(spark, tmp_path):
    snapshots, _ = stored.find_snapshots(spark, [str(write(WORLD.on(day), tmp_path)) for day in (2, 1, 0)])
    needed = [(snapshot, table) for snapshot in snapshots for table in schemas.INPUTS]
    assert stored.damaged(spark, needed) == []
    for snapshot, change in zip(snapshots, (lambda data: data[::-1], lambda data: data + b"x"), strict=False):
        path = Path(snapshot.uri) / "topics.parquet"
        path.write_bytes(change(path.read_bytes()))
    problems = stored.damaged(spark, needed)
    assert [(problem.cluster, problem.snapshot_id, problem.date) for problem in problems] == [
        (snapshot.cluster, snapshot.snapshot_id, snapshot.date) for snapshot in snapshots[:2]
    ]
    assert "topics.parquet has the sha256 " in problems[0].reason
    assert "topics.parquet has the size " in problems[1].reason


@pytest.mark.parametrize("statistics", [True, False], ids=["told by the footer", "looked for in the rows"])
def test_rows_of_another_cluster_make_a_snapshot_unreadable(spark, tmp_path, statistics):
    folder, other = (write(replace(WORLD, cluster=name), tmp_path) for name in ("alpha", "beta"))
    rows = pq.read_table(other / "partitions.parquet", partitioning=None)
    pq.write_table(rows, folder / "partitions.parquet", write_statistics=statistics)
    found, (problem,) = stored.find_snapshots(spark, [str(tmp_path)])
    assert ([snapshot.cluster for snapshot in found], problem.cluster) == (["beta"], "alpha")
    assert "'partitions' holds rows of cluster 'beta', expected 'alpha' only" in problem.reason


@pytest.mark.parametrize("name", ["cluster", "date", "snap"])
def test_a_folder_that_contradicts_its_manifest_is_a_problem(spark, tmp_path, name):
    folder = write(WORLD, tmp_path)
    parts = [
        f"{name}=2020-01-01" if part.startswith(f"{name}=") else part for part in folder.relative_to(tmp_path).parts
    ]
    moved = tmp_path.joinpath("moved", *parts)
    moved.parent.mkdir(parents=True)
    folder.rename(moved)
    found, (problem,) = stored.find_snapshots(spark, [str(tmp_path)])
    assert (found, f"its folder says {name}=2020-01-01, its manifest" in problem.reason) == ([], True)


def test_rows_are_counted_over_files_and_batches(spark, tmp_path):
    (tmp_path / "found").mkdir()
    kinds = ["a"] * 100_000 + ["b"] * 50_000
    for part, topics in enumerate(([None, *map(str, range(149_999))], list(map(str, range(150_000))))):
        pq.write_table(pa.table({"kind": kinds, "topic": topics}), tmp_path / "found" / f"part-{part}.parquet")
    place = folders.folder(spark, str(tmp_path))
    assert place.counted("found", ["kind"], ["topic"]) == [
        {"kind": "a", "topic": None, "count": 200_000},
        {"kind": "b", "topic": "99999", "count": 100_000},
    ]
    assert place.row_count("found") == 300_000
