"""A store as a whole: each planted damage is found, and what the store holds twice is mended."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.manifest import changed_manifest, manifest_bytes
from controller_core.adapters.snapshot.parquet import table_from_parquet, table_to_parquet
from kafka_maintenance.operations.snapshots.check import check_store, check_text
from kafka_maintenance.operations.snapshots.pins import pin
from kafka_maintenance.operations.snapshots.repair import carry_out, plan_repairs
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.snapshots.corpus import FORMAT_1
from tests.visible_snapshots import visible_snapshots

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def store(request):
    """The corpus, whole, with a pin."""
    store = MemoryStore(request.node.name)
    for path in sorted(FORMAT_1.rglob("*")):
        if path.is_file():
            store.put(path.relative_to(FORMAT_1).as_posix(), path.read_bytes())
    pin(store, manifest_of(store), reason="kept", by="ada", now=NOW)
    carry_out(store, plan_repairs(store))  # tables of today
    return store


def manifest_of(store):
    (manifest,) = visible_snapshots(store)
    return manifest


def note_key(store):
    (key,) = store.list("v1/runs/")
    return key


def change(store, key, old, new):
    assert old in store.get(key)
    store.put(key, store.get(key).replace(old, new))


def rewritten(store, **fields):
    """The manifest with other fields and a digest that fits them."""
    manifest = manifest_of(store)
    store.put(manifest.key, manifest_bytes(changed_manifest(manifest, **fields)))


def other_table(store, name, change_of):
    """A table with other rows, and a manifest that fits it."""
    manifest = manifest_of(store)
    key = manifest.object(name).key
    table = change_of(table_from_parquet(store.get(key), key))
    store.put(key, table_to_parquet(table))
    content = store.get(key)
    made = replace(
        manifest.object(name), size=len(content), sha256=hashlib.sha256(content).hexdigest(), rows=table.num_rows
    )
    rewritten(store, objects=tuple(made if each.key == key else each for each in manifest.objects))


def with_nulls(table, name):
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.nulls(table.num_rows, pa.string()))


def copied(store, old, new):
    for key in store.list(manifest_of(store).prefix):
        store.put(key.replace(old, new), store.get(key))


def flipped(store, key):
    content = bytearray(store.get(key))
    content[len(content) // 2] ^= 1
    store.put(key, bytes(content))


def table(store, name):
    return manifest_of(store).object(name).key


DAMAGES = {
    "raw is missing": (lambda s: s.delete(table(s, "raw")), "raw.parquet", "is missing"),
    "a table is missing": (lambda s: s.delete(table(s, "topics")), "topics.parquet", "is missing"),
    "raw is cut off": (lambda s: s.put(table(s, "raw"), s.get(table(s, "raw"))[:-9]), "raw.parquet", "bytes, found"),
    "a byte of raw is another": (lambda s: flipped(s, table(s, "raw")), "raw.parquet", "SHA-256"),
    "a byte of a table is another": (lambda s: flipped(s, table(s, "brokers")), "brokers.parquet", "SHA-256"),
    "a table is empty": (lambda s: s.put(table(s, "configs"), b""), "configs.parquet", "bytes, found 0"),
    "a table is not what raw says": (
        lambda s: other_table(s, "topics", lambda t: t.slice(1)),
        "topics.parquet",
        "is not what today's code decodes from raw",
    ),
    "a table has a null where none may be": (
        lambda s: other_table(s, "topics", lambda t: with_nulls(t, "topic")),
        "topics.parquet",
        "is not what today's code decodes from raw",
    ),
    "raw has a null where none may be": (
        lambda s: other_table(s, "raw", lambda t: with_nulls(t, "path")),
        "raw.parquet",
        "expected the types of",
    ),
    "raw names a path twice": (
        lambda s: other_table(
            s, "raw", lambda t: pa.concat_tables([t.slice(0, 1), t]).replace_schema_metadata(t.schema.metadata)
        ),
        "manifest.json",
        "names a path twice",
    ),
    "a parent is missing in raw": (
        lambda s: other_table(s, "raw", lambda t: t.slice(1).replace_schema_metadata(t.schema.metadata)),
        "manifest.json",
        "without their parent",
    ),
    "the manifest is cut off": (lambda s: s.put(manifest_of(s).key, b"{"), "manifest.json", "manifest is damaged"),
    "the manifest was changed": (
        lambda s: change(s, manifest_of(s).key, b'"zxid": ', b'"zxid": 9'),
        "manifest.json",
        "was changed, expected digest",
    ),
    "the manifest is lost": (lambda s: s.delete(manifest_of(s).key), "snap=", "objects without a manifest"),
    "the manifest names no raw": (
        lambda s: rewritten(s, objects=tuple(each for each in manifest_of(s).objects if each.table != "raw")),
        "raw.parquet",
        "is named by no manifest",
    ),
    "the manifest counts other rows": (
        lambda s: rewritten(s, counts={**manifest_of(s).counts, "topics": 99}),
        "manifest.json",
        "manifest counts 99 topics",
    ),
    "the folder is copied to another cluster": (
        lambda s: copied(s, "cluster=corpus", "cluster=other"),
        "cluster=other",
        "copied or moved",
    ),
    "the folder is copied to another date": (
        lambda s: copied(s, "2026-03-01", "2026-03-02"),
        "2026-03-02",
        "copied or moved",
    ),
    "the manifest names an object that is none": (
        lambda s: rewritten(s, objects=(replace(manifest_of(s).objects[0], key=f"{manifest_of(s).prefix}/.."),)),
        "..",
        "refused: expected names",
    ),
    "a manifest has a key that is none": (
        lambda s: s._objects.update({"v1/cluster=corpus/date=2026-03-01/snap=a//manifest.json": b"x"}),
        "snap=a//",
        "refused: expected names",
    ),
    "a pin has a key that is none": (
        lambda s: s._objects.update({"v1/pins/cluster=corpus//x.json": b"{}"}),
        "corpus//x.json",
        "is no pin that can be read",
    ),
    "a foreign object": (
        lambda s: s.put(f"{manifest_of(s).prefix}/notes.txt", b"x"),
        "notes.txt",
        "named by no manifest",
    ),
    "an object beside the snapshots": (
        lambda s: s.put("v1/cluster=corpus/x", b"x"),
        "cluster=corpus/x",
        "no snapshot has",
    ),
    "an object beside the plans of the living cluster": (
        lambda s: s.put("v1/cluster=corpus/date=2026-03-01/live/x", b"x"),
        "live/x",
        "no snapshot has",
    ),
    "a killed run left objects": (
        lambda s: s.put("v1/cluster=corpus/date=2026-03-01/snap=dead/raw.parquet", b"x"),
        "snap=dead",
        "1 object without a manifest",
    ),
    "the note of the run is lost": (lambda s: s.delete(note_key(s)), "manifest.json", "no note of its run"),
    "the note of the run is damaged": (lambda s: s.put(note_key(s), b"x"), "runs/", "manifest is damaged"),
    "the note of the run was moved": (
        lambda s: s.put(note_key(s).replace("format-1", "other"), s.get(note_key(s))),
        "runs/cluster=corpus/other",
        "copied or moved",
    ),
    "the pin cannot be read": (lambda s: s.put(s.list("v1/pins/")[0], b"x"), "pins/", "is no pin that can be read"),
    "the pinned snapshot is gone": (
        lambda s: s.put("v1/pins/cluster=corpus/gone.json", b'{"reason": "x"}'),
        "gone.json",
        "pins the snapshot gone, which cannot be read",
    ),
    "dated in the future": (lambda s: world.stored_day(s, NOW, -40), "alpha", "is dated in the future"),
}


def test_a_whole_store(store):
    found = check_store(store, now=NOW)
    assert found.findings == ()
    (state,) = found.clusters
    assert (state.cluster, state.snapshots, state.consistent, state.verified) == ("corpus", 1, True, True)
    assert check_text(found).endswith("1 snapshot, 1 of them read and decoded again: nothing is wrong")
    assert plan_repairs(store) == []


def test_a_plan_of_the_living_cluster_lies_where_it_should(store):
    for name in ("elect_preferred_leaders-7ca34e26324c.json", "elect_preferred_leaders-7ca34e26324c.md"):
        store.put(f"v1/cluster=corpus/date=2026-03-01/live/plans/{name}", b"{}")
    assert check_store(store, now=NOW).findings == ()


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_planted_damage_is_found(store, damage):
    plant, where, what = DAMAGES[damage]
    plant(store)
    found = check_store(store, now=NOW).findings
    assert [finding for finding in found if where in finding.where and what in finding.what], found


@pytest.mark.parametrize(
    "damage",
    [
        "a table is missing",
        "a byte of a table is another",
        "a table is empty",
        "a table is not what raw says",
        "the manifest is cut off",
        "the manifest was changed",
        "the manifest is lost",
        "the manifest counts other rows",
        "the note of the run is lost",
        "the note of the run is damaged",
    ],
)
def test_what_the_store_holds_twice_is_mended(store, damage):
    before = {name: store.get(table(store, name)) for name in ("raw", "topics", "partitions")}
    DAMAGES[damage][0](store)
    repairs = plan_repairs(store)
    assert check_store(store, now=NOW).findings, "planning writes nothing"
    carry_out(store, repairs)
    assert check_store(store, now=NOW).findings == ()
    assert {name: store.get(table(store, name)) for name in before} == before


@pytest.mark.parametrize(
    "damage", ["raw is missing", "a byte of raw is another", "the folder is copied to another date"]
)
def test_what_cannot_be_made_again_is_left_alone(store, damage):
    DAMAGES[damage][0](store)
    assert plan_repairs(store) == []


def test_a_sample_takes_the_newest_and_others_over_the_whole_history(store):
    for days_ago in range(20):
        world.stored_day(store, NOW, days_ago)
    found = check_store(store, now=NOW, cluster="alpha", sample=3)
    assert (found.snapshots, found.verified) == (20, 3)
    assert check_store(store, now=NOW, sample=3).verified == 4
