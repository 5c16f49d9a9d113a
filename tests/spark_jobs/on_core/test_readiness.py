"""What each rule says of a cluster is the same on an executor and in the command; one cluster that cannot be judged hides no other."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from controller_core.adapters.snapshot.manifest import RAW
from controller_core.adapters.snapshot.secrets import SECRET
from controller_core.adapters.snapshot.tables import RAW as RAW_SCHEMA
from spark_jobs import schemas
from spark_jobs.io.datasets import driver_rows
from spark_jobs.io.snapshots import Snapshot
from spark_jobs.kraft.phase import phase_of
from spark_jobs.kraft.rules import judge_all
from spark_jobs.on_core.readiness import kraft_readiness, public_configs
from tests.kafka_maintenance.operations.kraft.trees import MIGRATION, STATE, TOPIC, config, state, topic, tree

LISTENERS = "/config/brokers/1"
TREES = {
    "healthy": tree(),
    "lacking": tree({TOPIC: topic(1, 9), "/config/clients/c": config(no_such_rate="5")}),
    "begun": tree({"/migration": MIGRATION, STATE: state(isr=[1])}),
    "sealed": tree({LISTENERS: config(listeners="x")}, unread={LISTENERS: SECRET}),
}


def snapshot(folder, cluster, rows):
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema([f.with_nullable(True) for f in RAW_SCHEMA])), folder / "raw.parquet")  # fmt: skip
    redacted = (LISTENERS,) if cluster == "sealed" else ()
    manifest = SimpleNamespace(cluster=cluster, snapshot_id="s1", redacted=redacted)
    return Snapshot(folder.as_uri(), manifest, frozenset({RAW}))


def of_tree(folder, cluster, found):
    return snapshot(folder, cluster, [
        {"path": path, "data": each.data, "version": each.version, "ephemeral_owner": int(each.ephemeral), "left_out": each.why_unread}
        for path, each in found.znodes.items()
    ])  # fmt: skip


def test_executors_say_what_the_command_says(spark, tmp_path):
    snapshots = [of_tree(tmp_path / cluster, cluster, found) for cluster, found in TREES.items()]
    damaged = snapshot(tmp_path / "damaged", "damaged", [{"path": None}])
    absent = Snapshot("file:/nowhere", SimpleNamespace(cluster="absent", snapshot_id="s1", redacted=()), frozenset())
    configs = driver_rows(spark, [
        {"cluster": cluster, "snapshot_id": "s1", "entity_type": "brokers", "entity_name": "1", "key": "listeners", "value": "x"}
        for cluster in TREES
    ], schemas.CONFIGS)  # fmt: skip
    public = public_configs(configs, snapshots)
    assert public == {("sealed", "s1"): {LISTENERS: {"listeners": "x"}}}
    rows = kraft_readiness(spark, [*snapshots, damaged, absent], public).collect()
    assert {row["cluster"] for row in rows if row["error"]} == {"damaged"}
    found = {
        (row["cluster"], row["rule"]): (row["phase"], row["verdict"], row["evidence"])
        for row in rows
        if not row["error"]
    }
    expected = {
        (cluster, rule): (phase_of(each).id.value, judged.verdict.value, list(judged.evidence))
        for cluster, each in TREES.items()
        for rule, judged in judge_all(type(each)(each.znodes, public.get((cluster, "s1"), {}))).items()
    }
    assert found == expected
    assert found["sealed", "R22"][1] == "decide first"


def test_the_folder_of_a_snapshot_may_have_any_name(spark, tmp_path):
    """Spark names the file of each row as a URI: a row whose file is not known again would be of no snapshot."""
    folder = tmp_path / "My backups %20 + [é]"
    folder.mkdir()
    made = of_tree(folder / "healthy", "healthy", TREES["healthy"])
    rows = kraft_readiness(spark, [Snapshot(str(folder / "healthy"), made.manifest, made.there)], {}).collect()
    assert [row["error"] for row in rows if row["error"]] == []
    assert {row["rule"] for row in rows} == set(judge_all(TREES["healthy"]))


def test_without_a_raw_layer_nothing_is_judged(spark):
    snapshot_without = Snapshot(
        "file:/nowhere", SimpleNamespace(cluster="a", snapshot_id="s", redacted=()), frozenset()
    )
    assert kraft_readiness(spark, [snapshot_without], {}).collect() == []
