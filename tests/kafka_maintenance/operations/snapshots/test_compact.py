"""Compact history: made day by day as from nothing, never more than the snapshots say, and no loss when it is lost."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.cli.arguments import ExitStatus
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.analysis.run import UNPUBLISHED, stage
from kafka_maintenance.operations.retention.plan import RetentionPolicy, apply_retention, plan_retention
from kafka_maintenance.operations.snapshots import compact
from kafka_maintenance.operations.snapshots.compact import (
    NAME,
    check_compact,
    compacts_for,
    follow_snapshots,
    keep_compact,
    months_of,
    read_compact,
    remove_compact,
)
from tests.spark_jobs.worlds import DAY, World, publish

MONTH = f"{DAY:%Y-%m}"
MANIFEST = f"v1/history/cluster=alpha/month={MONTH}/{NAME}"


def world(days_ago, **changes):
    rows = tuple((f"t{number}", 0, (1, 2), 1 if days_ago % 3 else 2, (1, 2)) for number in range(4))
    return World(**{"brokers": {1: "a", 2: "b"}, "partitions": rows} | changes).on(days_ago)


def publish_days(store, days):
    return [publish(world(days_ago), store) for days_ago in sorted(days, reverse=True)]


def test_day_by_day_gives_the_same_files_as_from_nothing(store):
    for days_ago in reversed(range(4)):
        publish(world(days_ago), store)
        daily = keep_compact(store, "alpha", MONTH)
    other = MemoryStore("from nothing")
    manifests = publish_days(other, range(4))
    at_once = keep_compact(other, "alpha", MONTH)
    assert daily == at_once
    assert daily.snapshots == {manifest.snapshot_id: manifest.digest for manifest in manifests}
    assert check_compact(store, "alpha", MONTH) == []
    assert sorted(store.list("v1/history/")) == sorted([MANIFEST, *(stored.key for stored in daily.objects)])


def test_what_is_there_is_neither_read_nor_written_again(store, monkeypatch):
    publish_days(store, range(3))
    kept = keep_compact(store, "alpha", MONTH)
    read = []
    monkeypatch.setattr(compact, "read_table", lambda _, manifest, table: read.append((manifest.date, table)))
    monkeypatch.setattr(store, "put", None)
    assert keep_compact(store, "alpha", MONTH) == kept
    assert read == []


def test_a_new_date_reads_its_own_snapshot_only(store, monkeypatch):
    publish_days(store, (2, 1))
    keep_compact(store, "alpha", MONTH)
    (newest,) = publish_days(store, (0,))
    read, by_catalog = set(), compact.read_table

    def seen(store, manifest, table):
        read.add(manifest.snapshot_id)
        return by_catalog(store, manifest, table)

    monkeypatch.setattr(compact, "read_table", seen)
    assert len(keep_compact(store, "alpha", MONTH).snapshots) == 3
    assert read == {newest.snapshot_id}


def test_a_snapshot_that_another_one_replaced_goes(store):
    old, *_ = publish_days(store, (2, 1))
    keep_compact(store, "alpha", MONTH)
    later = publish(World(brokers={1: "a"}, zxid=9999, day=DAY - timedelta(days=2)), store)
    assert check_compact(store, "alpha", MONTH) == [
        f"{MANIFEST}: names the snapshot {old.snapshot_id}, which is not the newest of a date any more"
    ]
    kept = keep_compact(store, "alpha", MONTH)
    assert old.snapshot_id not in kept.snapshots
    assert later.snapshot_id in kept.snapshots
    assert check_compact(store, "alpha", MONTH) == []


@pytest.mark.parametrize("damage", ["bytes", "gone", "manifest", "types"])
def test_what_is_damaged_is_told_passed_over_and_made_again(store, damage):
    manifests = publish_days(store, range(3))
    kept = keep_compact(store, "alpha", MONTH)
    key = kept.objects[0].key
    match damage:
        case "bytes":
            store.put(key, b"x" + store.get(key)[1:])
        case "gone":
            store.delete(key)
        case "manifest":
            store.put(MANIFEST, store.get(MANIFEST).replace(b"alpha", b"omega"))
            with pytest.raises(ObjectDamagedError, match="snapshots compact"):
                read_compact(store, "alpha", MONTH)
        case "types":
            document = {**json.loads(store.get(MANIFEST)), "snapshots": []}
            del document["digest"]
            store.put(MANIFEST, json.dumps({**document, "digest": compact._digest(document)}).encode())
            assert compacts_for(store, manifests) == []
    assert len(check_compact(store, "alpha", MONTH)) == 1
    publish(world(-1), store)
    assert len(keep_compact(store, "alpha", MONTH).snapshots) == 4
    assert check_compact(store, "alpha", MONTH) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda table: table.drop_columns(["leader_epoch"]), 1, id="a column that came later is not there"),
        pytest.param(lambda table: table.append_column("x", table["topic"]), 0, id="one of a newer program is there"),
        pytest.param(lambda table: table.set_column(3, "topic", pa.nulls(len(table), pa.null())), 1, id="another type"),
    ],
)
def test_the_files_of_another_version_of_the_program_are_no_obstacle(store, monkeypatch, change, told):
    publish_days(store, range(3))
    with monkeypatch.context() as other:
        write = compact.table_to_parquet
        other.setattr(
            compact, "table_to_parquet", lambda table: write(change(table) if "topic" in table.column_names else table)
        )
        keep_compact(store, "alpha", MONTH)
    assert len(check_compact(store, "alpha", MONTH)) == told
    publish(world(-1), store)
    assert len(keep_compact(store, "alpha", MONTH).snapshots) == 4
    assert check_compact(store, "alpha", MONTH) == []


@pytest.mark.parametrize("accident", ["killed", "damaged"])
def test_no_row_of_a_snapshot_that_is_gone_stays_behind(store, monkeypatch, accident):
    """Neither of a run that was killed before it named its files, nor of one whose document cannot be read any more."""
    first, second, _ = publish_days(store, range(3))
    keep_compact(store, "alpha", MONTH)
    if accident == "damaged":
        store.put(MANIFEST, b"{")
    else:
        store.delete(second.key)
        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(compact, "_publish", Mock(side_effect=KeyboardInterrupt))
            keep_compact(store, "alpha", MONTH)
    store.delete(first.key)
    follow_snapshots(store, "alpha", [MONTH])
    named = {each.key for each in read_compact(store, "alpha", MONTH).objects}
    assert set(store.list(MANIFEST.removesuffix("compact.json"))) == {MANIFEST, *named}


def test_rows_that_differ_from_the_snapshots_are_told(store, monkeypatch):
    publish_days(store, range(2))
    by_catalog = compact.read_table
    with monkeypatch.context() as lying:
        lying.setattr(compact, "read_table", lambda *given: by_catalog(*given).slice(0, 1))
        keep_compact(store, "alpha", MONTH)
    assert check_compact(store, "alpha", MONTH) == [
        f"{MANIFEST}: partitions: 2 rows, not the 8 of its snapshots",
        f"{MANIFEST}: brokers: 2 rows, not the 4 of its snapshots",
    ]


def test_a_snapshot_with_rows_of_another_or_a_damaged_table_is_left_out(store):
    good, foreign, broken = publish_days(store, (2, 1, 0))
    store.put(broken.object("partitions").key, b"no Parquet")
    other = MemoryStore("other")
    stranger = publish(world(1, cluster="beta"), other)
    theirs = stranger.object("partitions")
    objects = tuple(replace(theirs, key=each.key) if each.table == "partitions" else each for each in foreign.objects)
    store.put(foreign.object("partitions").key, other.get(theirs.key))
    assert compact._rows_of(store, replace(foreign, objects=objects)) is None
    assert list(keep_compact(store, "alpha", MONTH).snapshots) == [good.snapshot_id]


def test_many_rows_are_left_to_the_snapshots(store, monkeypatch):
    publish_days(store, range(2))
    keep_compact(store, "alpha", MONTH)
    monkeypatch.setattr(compact, "ROWS_MAX", 7)
    assert keep_compact(store, "alpha", MONTH) is None
    assert store.list("v1/history/") == []


def test_retention_removes_the_rows_with_the_snapshots(store):
    now = datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC)
    publish_days(store, (0, 1, 5, 30))
    for month in months_of(store, "alpha"):
        keep_compact(store, "alpha", month)
    assert months_of(store, "alpha") == ["2026-10", MONTH]
    policy = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    plan = plan_retention(store, policy, now=now)
    assert len(plan.dropped) == 2  # the two of the last days are recent
    apply_retention(store, policy, plan.digest, now=now, approver="alice")
    assert months_of(store, "alpha") == [MONTH]
    kept = read_compact(store, "alpha", MONTH)
    assert set(kept.snapshots) == {each.snapshot_id for each in plan.kept}
    assert check_compact(store, "alpha", MONTH) == []


def staged(store, manifests, folder):
    return stage(store, [manifests[-1]], folder, run_id="r", day=DAY)


def test_staging_fetches_the_compact_history_in_place_of_the_snapshots_in_it(store, tmp_path):
    manifests = publish_days(store, range(6))
    keep_compact(store, "alpha", MONTH)
    inputs = (staged(store, manifests, tmp_path).folder / "inputs").read_text().splitlines()[1:]
    assert [path.rpartition("snap=")[2] for path in inputs] == [each.snapshot_id for each in manifests[-2:]]
    said = compact_said(tmp_path)
    assert [name for _, name in said["snapshots"]] == [each.snapshot_id for each in manifests[:-2]]
    assert set(said["files"]) == {"partitions", "brokers", "cluster"}


def test_staging_fetches_the_snapshots_where_the_compact_history_is_damaged(store, tmp_path):
    manifests = publish_days(store, range(4))
    store.delete(keep_compact(store, "alpha", MONTH).objects[1].key)
    inputs = (staged(store, manifests, tmp_path).folder / "inputs").read_text().splitlines()[1:]
    assert len(inputs) == 4
    assert compact_said(tmp_path)["snapshots"] == []


def test_a_job_that_works_in_place_reads_its_compact_history_also_after_that_is_made_anew(store, tmp_path):
    manifests = publish_days(store, range(6))
    kept = keep_compact(store, "alpha", MONTH)
    contents = {store.get(each.key) for each in kept.objects}
    stage(store, [manifests[-1]], tmp_path, run_id="r", day=DAY, in_place=True)
    remove_compact(store, "alpha", MONTH)
    files = {path for paths in compact_said(tmp_path)["files"].values() for path in paths}
    there = {f"s3a://{store.uri_of(key).removeprefix('s3://')}": store.get(key) for key in store.list(UNPUBLISHED)}
    assert (set(there), set(there.values())) == (files, contents)
    stage(store, [manifests[-1]], tmp_path, run_id="r", day=DAY, in_place=True)
    assert store.list(UNPUBLISHED) == []


def test_staging_passes_over_a_compact_history_without_one_of_its_tables(store, tmp_path):
    manifests = publish_days(store, range(4))
    kept = keep_compact(store, "alpha", MONTH)
    compact._publish(store, replace(kept, objects=kept.objects[1:]))
    staged(store, manifests, tmp_path)
    assert compact_said(tmp_path)["snapshots"] == []


def compact_said(folder):
    return json.loads((folder / "compact.json").read_text())


def test_the_command_keeps_and_checks(tmp_path, capsys):
    store = open_store(str(tmp_path))
    publish_days(store, range(3))
    command = ["snapshots", "compact", "--store", str(tmp_path)]
    assert main([*command, "--cluster", "alpha"]) == 0
    assert "alpha 2026-11: 3 snapshots, " in capsys.readouterr().out
    assert main([*command, "--check"]) == 0
    store.delete(read_compact(store, "alpha", MONTH).objects[0].key)
    assert main([*command, "--check", "--month", MONTH]) == ExitStatus.FOUND
    assert "1 months compared with their snapshots, 1 things are wrong" in capsys.readouterr().out
