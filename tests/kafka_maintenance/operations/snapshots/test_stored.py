"""Stored snapshots without any server: the corpus of every format version, and damage of every kind."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller_core.adapters.object_store.open import FolderStore, MemoryStore
from controller_core.adapters.snapshot import parquet as snapshot_parquet
from controller_core.adapters.snapshot.format import raw_from_parquet, raw_to_parquet
from controller_core.adapters.snapshot.manifest import _digest, parse_manifest, require_name, run_token
from controller_core.adapters.snapshot.parquet import table_to_parquet
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.snapshot.tables import RAW, TABLES
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError, UnknownFormatError
from kafka_maintenance.operations.restore.content import RestoreScope, restorable
from kafka_maintenance.operations.snapshots import catalog as snapshots
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from tests.kafka_maintenance.operations.snapshots.corpus import CORPUS, VERSIONS, stored
from tests.visible_snapshots import visible_snapshots


def test_every_format_version_has_its_corpus():
    from controller_core.adapters.snapshot.manifest import FORMAT_VERSIONS

    assert [f"format-{version}" for version in FORMAT_VERSIONS] == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_the_decode_step_reads_old_snapshots(version):
    store = FolderStore(CORPUS / version / "store")
    manifest = stored(store)
    tables = snapshots.decoded_tables(store, manifest)
    assert set(tables) == set(TABLES)
    partitions = [
        (
            row["topic"],
            row["partition"],
            row["replicas"],
            row["leader"],
            row["leader_epoch"],
            row["isr"],
            row["recovery"],
        )
        for row in tables["partitions"].to_pylist()
    ]
    assert partitions == [
        ("orders", 0, [1, 2], 1, 0, [1, 2], 0),
        ("orders", 1, [2, 1], 2, 5, [2], 1),
        ("payments", 0, [1, 2], 2, 7, [2], 0),
    ]
    assert [(row["topic"], row["topic_id"], row["deletion_requested"]) for row in tables["topics"].to_pylist()] == [
        ("orders", None, False),
        ("payments", "3tRvjlrmRXmsYOMp9Fg0AA", True),
    ]
    assert {(row["kind"], row["topic"], row["partition"]) for row in tables["requests"].to_pylist()} == {
        ("delete_topics", "payments", None),
        ("preferred_replica_election", "orders", 1),
    }
    assert {(row["kind"], row["topic"], row["partition"]) for row in tables["notifications"].to_pylist()} == {
        ("isr_change", "orders", 0),
        ("config_change", "orders", None),
    }
    assert [row["path"] for row in tables["bad_rows"].to_pylist()] == ["/brokers/topics/broken"]
    assert [(row["broker_id"], row["rack"]) for row in tables["brokers"].to_pylist()] == [(1, "r1"), (2, "r1")]
    (cluster,) = tables["cluster"].to_pylist()
    assert (cluster["controller_id"], cluster["consistent"]) == (1, True)
    assert cluster["version_znodes"] == ["/log_dir_event_notification", "/latest_producer_id_block"]
    assert ("users", "alice", "producer_byte_rate", "2048") in {
        (row["entity_type"], row["entity_name"], row["key"], row["value"]) for row in tables["configs"].to_pylist()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_old_snapshots_can_be_restored_with_their_secrets(version):
    store = FolderStore(CORPUS / version / "store")
    raw = snapshots.read_raw(store, stored(store))
    manifest = stored(store)
    sealer = Sealer.from_file(CORPUS / version / "key").of(manifest.cluster, manifest.snapshot_id)
    content = restorable(raw, RestoreScope(whole=True), sealer)
    found = {znode.path: znode.data for znode in content.znodes}
    assert b"s3cr3t" in found["/config/users/alice"]
    assert "/config/users/alice" in restorable(raw, RestoreScope(whole=True)).left_out
    assert {path for path, why in content.left_out.items() if "request" in why} == {
        "/admin/delete_topics/payments",
        "/admin/preferred_replica_election",
    }


def test_the_corpus_verifies(corpus):
    assert verify_snapshot(corpus, stored(corpus)) == []


def damage(corpus, table, change):
    key = stored(corpus).object(table).key
    corpus.put(key, change(corpus.get(key)))


def flip(content):
    return content[:50] + bytes([content[50] ^ 1]) + content[51:]


@pytest.mark.parametrize("table", ["raw", "partitions"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(flip, id="flipped byte"),
        pytest.param(lambda content: content[:-10], id="truncated"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda content: content + b"x", id="longer"),
    ],
)
def test_a_damaged_object_is_never_used(corpus, table, change):
    damage(corpus, table, change)
    manifest = stored(corpus)
    read = snapshots.read_raw if table == "raw" else lambda store, which: snapshots.read_table(store, which, table)
    with pytest.raises(ObjectDamagedError, match=rf"{table}\.parquet.*is damaged: expected"):
        read(corpus, manifest)
    findings = verify_snapshot(corpus, manifest)
    assert any(f"{table}.parquet" in finding.where for finding in findings)


def test_a_missing_object(corpus):
    manifest = stored(corpus)
    corpus.delete(manifest.object("topics").key)
    with pytest.raises(ObjectMissingError, match=r"topics\.parquet"):
        snapshots.read_table(corpus, manifest, "topics")
    assert any("not found" in finding.what for finding in verify_snapshot(corpus, manifest))


def test_a_missing_manifest(corpus):
    manifest = stored(corpus)
    corpus.delete(manifest.key)
    assert visible_snapshots(corpus) == []
    with pytest.raises(ObjectMissingError, match=r"manifest\.json"):
        snapshots.read_manifest(corpus, manifest.uri)


def saying(**fields):
    """Makes a manifest say something else, with a digest that fits it."""

    def change(text):
        document = {**json.loads(text), **fields}
        del document["digest"]
        return json.dumps({**document, "digest": _digest(document)})

    return change


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        pytest.param(
            saying(taken_at="2026-03-01T12:00:00"), ObjectDamagedError, "timezone component", id="a time of no zone"
        ),
        pytest.param(
            saying(taken_at="9999-12-31T23:59:59-14:00"),
            ObjectDamagedError,
            "manifest is damaged",
            id="beyond all time",
        ),
        pytest.param(saying(date="2026-02-28"), ObjectDamagedError, "expected the date 2026-03-01", id="another date"),
        pytest.param(saying(cluster=None), ObjectDamagedError, "Expected `str`", id="no cluster"),
        pytest.param(saying(cluster="a/b"), ObjectDamagedError, "cluster 'a/b' refused", id="no name of a cluster"),
        pytest.param(saying(snapshot_id="../x"), ObjectDamagedError, "'../x' refused", id="no name of a snapshot"),
        pytest.param(saying(run_id=7), ObjectDamagedError, r"at `\$.run_id`", id="a number for a name"),
        pytest.param(saying(counts=[]), ObjectDamagedError, r"at `\$.counts`", id="a list of counts"),
        pytest.param(saying(counts={"topics": "1"}), ObjectDamagedError, "Expected `int`", id="a text for a number"),
        pytest.param(saying(objects=[{"key": 7}]), ObjectDamagedError, r"at `\$.objects", id="an object without a key"),
        pytest.param(lambda _: "[" * 100_000, ObjectDamagedError, "RecursionError", id="nested without end"),
        pytest.param(
            lambda text: text.replace('"run_id": "', '"run_id": "\\ud800'),
            ObjectDamagedError,
            "surrogates",
            id="half a character",
        ),
        pytest.param(lambda text: text[: len(text) // 2], ObjectDamagedError, "manifest is damaged", id="torn"),
        pytest.param(lambda _: "[]", ObjectDamagedError, "manifest is damaged", id="no object"),
        pytest.param(lambda _: "{}", ObjectDamagedError, "manifest is damaged", id="no fields"),
        pytest.param(
            lambda text: text.replace('"zxid": ', '"zxid": 9'),
            ObjectDamagedError,
            "was changed, expected digest",
            id="changed",
        ),
        pytest.param(
            lambda text: text.replace('"format_version": 1', '"format_version": 99'),
            UnknownFormatError,
            "found 99",
            id="from the future",
        ),
        pytest.param(lambda _: "\x00", ObjectDamagedError, "manifest is damaged", id="no JSON"),
    ],
)
def test_a_damaged_manifest_is_named(corpus, change, error, text):
    manifest = stored(corpus)
    corpus.put(manifest.key, change(corpus.get(manifest.key).decode()).encode())
    with pytest.raises(error, match=text):
        visible_snapshots(corpus)


def test_a_field_that_a_newer_program_added_is_kept(corpus):
    manifest = stored(corpus)
    document = json.loads(corpus.get(manifest.key))
    document["later_field"] = "fine"
    del document["digest"]
    document["digest"] = _digest(document)
    found = parse_manifest(json.dumps(document).encode(), "uri", manifest.key)
    assert found.extra == {"later_field": "fine"}


def test_raw_of_a_future_format(corpus):
    manifest = stored(corpus)
    table = pq.read_table(pa.BufferReader(corpus.get(manifest.object("raw").key)))
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({b"format_version": b"7"}), sink)
    with pytest.raises(UnknownFormatError, match="found '7'"):
        raw_from_parquet(sink.getvalue().to_pybytes(), "raw")


def test_parquet_that_is_no_raw_layer():
    with pytest.raises(ObjectDamagedError, match="no whole Parquet file"):
        raw_from_parquet(b"PAR1 not really PAR1", "raw")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"path": ["/"]}).replace_schema_metadata({b"format_version": b"1"}), sink)
    with pytest.raises(ObjectDamagedError, match="expected columns"):
        raw_from_parquet(sink.getvalue().to_pybytes(), "raw")


@pytest.mark.parametrize(
    ("folder", "named"), [("snap=a\\b", "refused: expected names"), ("snap=a", "leads out of the store")]
)
def test_a_manifest_that_may_not_be_touched_hides_no_other(corpus, folder, named):
    place = Path(corpus.uri, "v1/cluster=corpus/date=2026-03-02", folder)
    place.mkdir(parents=True)
    (place / "manifest.json").symlink_to("/etc/hostname")
    found, (reason,) = snapshots.readable_snapshots(corpus, snapshots.manifest_keys(corpus))
    assert (len(found), named in str(reason)) == (1, True)
    assert snapshots.find_snapshot(corpus, "newest", passed_over=lambda _: None) == found[0]


def test_objects_without_a_manifest_are_invisible(corpus):
    corpus.put("v1/cluster=corpus/date=2026-03-02/snap=half/raw.parquet", b"torn upload")
    assert len(visible_snapshots(corpus)) == 1


def test_verify_sees_a_manifest_that_lies(corpus):

    manifest = stored(corpus)
    lying = replace(manifest, counts={**manifest.counts, "znodes": 7, "topics": 9}, redacted=())
    told = " ".join(finding.what for finding in verify_snapshot(corpus, lying))
    assert "manifest counts 7, raw holds" in told
    assert "manifest counts 9 topics" in told
    assert "manifest names 0 secrets" in told


def test_verify_sees_a_table_that_does_not_come_from_raw(corpus):
    from dataclasses import replace

    from controller_core.adapters.snapshot.manifest import StoredObject

    manifest = stored(corpus)
    table = snapshots.read_table(corpus, manifest, "topics").slice(0, 1)
    content = table_to_parquet(table)
    old = manifest.object("topics")
    new = StoredObject(old.key, len(content), hashlib.sha256(content).hexdigest(), 1)
    corpus.put(old.key, content)
    changed = replace(manifest, objects=tuple(new if each is old else each for each in manifest.objects))
    told = " ".join(finding.what for finding in verify_snapshot(corpus, changed))
    assert "not what today's code decodes" in told


def test_raw_is_small_and_exact():
    from controller_core.adapters.snapshot.format import raw_layer
    from controller_core.adapters.snapshot.reader import Cut, Znode
    from controller_core.adapters.zookeeper.multi_read import STAT

    znodes = {
        f"/brokers/topics/t{topic:03}/partitions/{number}/state": Znode(
            b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1,2,3]}' % (number % 3, topic % 7),
            STAT.pack(
                topic * 50 + number, topic * 60 + number, 17 * 10**11, 17 * 10**11, number, 0, 0, 0, 78, 0, topic
            ),
        )
        for topic in range(200)
        for number in range(50)
    }
    cut = Cut(
        znodes=znodes, unreadable={}, zxid=1, consistent=True, reason=None, unresolved=0, rounds=1, attempts=1, method="cut",
        acls={}, secured=False, server_version="", scan_zxids=(1, 1), seconds=(0, 0),
    )  # fmt: skip
    table = raw_layer(cut).table
    content = raw_to_parquet(table)
    assert len(content) / len(znodes) < 30
    assert raw_from_parquet(content, "x").equals(table)
    assert table.schema.equals(RAW)


def test_nothing_of_such_a_file_is_fetched_for_spark(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_parquet, "ROWS_MAX", 1)
    with pytest.raises(ObjectDamagedError, match="its footer says"):
        snapshots.fetch_tables(corpus, stored(corpus), tmp_path / "here")
    assert not list((tmp_path / "here").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("one", "other"),
    [("run", "Run"), ("a b", "a-b"), ("", "-"), ("x" * 100, "x" * 101), ("2026-01-01T00:00", "2026-01-01T00-00")],
)
def test_tokens_of_different_runs_differ(one, other):
    assert run_token(one) != run_token(other)
    assert require_name(run_token(one), "token")


def test_a_snapshot_is_found_by_what_a_person_types(corpus):
    manifest = stored(corpus)
    for name in ("newest", manifest.snapshot_id[:16], manifest.uri, manifest.key, manifest.prefix):
        assert snapshots.find_snapshot(corpus, name) == manifest
    with pytest.raises(ObjectMissingError, match="the newest are: 0000"):
        snapshots.find_snapshot(corpus, "f00")
    with pytest.raises(ObjectMissingError, match="none"):
        snapshots.find_snapshot(MemoryStore("nothing"), "newest")


def test_the_half_written_files_of_another_writer_stay_its_own(corpus, tmp_path):
    folder = snapshots.fetch_tables(corpus, stored(corpus), tmp_path / "copy")
    others = [folder / f"{name}.part" for name in ("partitions.parquet", "manifest.json")]
    for path in others:
        path.with_suffix("").unlink()
        path.write_bytes(b"half")
    snapshots.fetch_tables(corpus, stored(corpus), tmp_path / "copy")
    assert [path.read_bytes() for path in others] == [b"half", b"half"]
    assert sorted(folder.glob("*.part")) == sorted(others), "and none of ours is left"


def test_a_column_that_came_later_is_null_in_an_older_snapshot(corpus):
    cluster = snapshots.read_table(corpus, stored(corpus), "cluster")
    assert cluster.column("version_znodes").to_pylist() == [None]
    assert set(cluster.column_names) == set(TABLES["cluster"].names)
