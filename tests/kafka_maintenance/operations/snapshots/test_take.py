"""Taking a snapshot of a real ZooKeeper: content, identity, refusals, secrets."""

import base64
import json
import os
from contextlib import ExitStack
from datetime import timedelta

import pytest
from kazoo.security import ACL, Id

from controller_core.adapters.object_store.open import FolderStore, MemoryStore
from controller_core.adapters.snapshot.reader import ReadOptions
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import (
    MigratingClusterError,
    NoNodeError,
    NotKafkaTreeError,
    ObjectDamagedError,
    SnapshotKeyError,
    StoreUnwritableError,
    ZooKeeperUnreachableError,
)
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.snapshots import catalog as snapshots
from kafka_maintenance.operations.snapshots.publish import OtherClusterError
from kafka_maintenance.operations.snapshots.show import manifest_json, show_snapshot
from kafka_maintenance.operations.snapshots.take import require_zookeeper_mode, take_snapshot
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from kafka_maintenance.servers import ZooKeeperServer
from spark_jobs.kraft.phase import PhaseId, phase_of
from spark_jobs.kraft.tree import tree_of
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.snapshots.taken import OPS, OWN
from tests.visible_snapshots import visible_snapshots

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server():
    """One of their own: a refusal names every Kafka tree of its server."""
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


def take(chroot, store, run_id="run-1", now=world.NOON, **kwargs):
    return take_snapshot(address=ClusterAddress(chroot), cluster="alpha", store=store, run_id=run_id, now=now, **kwargs)


def test_a_snapshot_holds_the_tree(kafka, chroot, store):
    result = take(chroot, store)
    raw = snapshots.read_raw(store, result.manifest)
    found = dict(zip(raw["path"].to_pylist(), raw["data"].to_pylist(), strict=True))
    for path, data in world.PERSISTENT.items():
        if path != "/config/users/alice":
            assert found[path] == data, path
    owners = dict(zip(raw["path"].to_pylist(), raw["ephemeral_owner"].to_pylist(), strict=True))
    assert owners["/controller"] == kafka.session_id
    assert owners["/cluster/id"] == 0
    stat = kafka.exists("/brokers/topics/orders/partitions/0/state")
    row = raw.filter([path.endswith("orders/partitions/0/state") for path in raw["path"].to_pylist()]).to_pylist()[0]
    assert {name: row[name] for name in stat._fields} == stat._asdict()


def test_the_manifest_tells_what_is_there(kafka, chroot, store):
    result = take(chroot, store)
    manifest = snapshots.read_manifest(store, result.manifest_uri)
    assert (result.consistent, manifest.consistent, manifest.reason) == (True, True, None)
    assert manifest.kafka_cluster_id == world.CLUSTER_ID
    assert (manifest.cluster, manifest.date, manifest.run_id, manifest.taken_at) == (
        "alpha",
        "2026-03-01",
        "run-1",
        world.NOON,
    )
    assert result.counts["partitions"] == 3
    assert result.counts["topics"] == 2
    assert result.counts["brokers"] == 2
    assert result.counts["ephemerals"] == 3
    assert manifest.snapshot_id.startswith(f"{manifest.zxid:016x}-run-1-")
    assert verify_snapshot(store, manifest) == []


def test_acls_are_taken_over_from_the_snapshot_before(kafka, chroot, store):
    """`zookeeper.set.acl` came late: one znode of many is closed."""
    kafka.client.set_acls("/config/users/bob", [ACL(1, Id("world", "anyone"))])
    first = take(chroot, store).manifest
    assert (first.secured, dict(first.acls)) == (
        True,
        {"read": first.counts["znodes"], "carried": 0, "unread": [], "masked": []},
    )
    kafka.client.set_acls("/config/users/alice", [ACL(1, Id("world", "anyone")), ACL(31, Id("digest", "ops:x"))])
    second = take(chroot, store, "run-2").manifest
    assert (second.acls["read"], second.acls["carried"]) == (1, first.counts["znodes"] - 1)
    assert (second.acls["unread"], second.acls["masked"]) == ([], ["/config/users/alice"])
    assert "1 masked: /config/users/alice" in show_snapshot(snapshots.read_manifest(store, second.uri))
    raws = [
        dict(zip(*(snapshots.read_raw(store, each)[name].to_pylist() for name in ("path", "acl")), strict=True))
        for each in (first, second)
    ]
    assert {path for path in raws[1] if raws[0].get(path) != raws[1][path]} == {"/config/users/alice"}


def test_another_cluster_is_not_stored_under_a_name_that_has_snapshots(kafka, chroot, store):
    take(chroot, store)
    other = json.dumps({"version": "1", "id": "AAAAAAAAAAAAAAAAAAAAAA"}).encode()
    kafka.set("/cluster/id", other, -1)
    message = f"expected Kafka cluster id '{world.CLUSTER_ID}', as on 2026-03-01, found 'AAAAAAAAAAAAAAAAAAAAAA'; .*--new-cluster-id"
    with pytest.raises(OtherClusterError, match=message):
        take(chroot, store, "run-2")
    assert len(visible_snapshots(store)) == 1
    assert take(chroot, store, "run-3", new_cluster_id=True).manifest.kafka_cluster_id == "A" * 22
    kafka.delete("/cluster/id", -1)
    assert take(chroot, store, "run-4").manifest.kafka_cluster_id is None, "unknown is not another"


def test_a_folder_copied_under_another_name_answers_nothing_for_it(kafka, chroot, store):
    manifest = take(chroot, store).manifest
    for key in store.list("v1/cluster=alpha/"):
        store.put(key.replace("cluster=alpha", "cluster=beta"), store.get(key))
    found, unusable = snapshots.readable_snapshots(store, snapshots.manifest_keys(store))
    assert [each.uri for each in found] == [manifest.uri]
    assert "as it says, found them in 'v1/cluster=beta/" in str(unusable[0])
    with pytest.raises(ObjectDamagedError, match="copied or moved"):
        snapshots.newest_snapshot(store, "beta")


def test_tables(kafka, chroot, store):
    manifest = take(chroot, store).manifest
    rows = snapshots.read_table(store, manifest, "partitions").to_pylist()
    assert [(row["topic"], row["partition"], row["replicas"], row["leader"], row["isr"]) for row in rows] == [
        ("orders", 0, [1, 2], 1, [1, 2]),
        ("orders", 1, [2, 1], 2, [2, 1]),
        ("payments", 0, [1, 2], 2, [2]),
    ]
    (cluster,) = snapshots.read_table(store, manifest, "cluster").to_pylist()
    assert (cluster["controller_id"], cluster["controller_epoch"], cluster["migration"]) == (1, 3, None)
    settings = {
        (row["entity_type"], row["entity_name"], row["key"]): row["value"]
        for row in snapshots.read_table(store, manifest, "configs").to_pylist()
    }
    assert settings["topics", "orders", "cleanup.policy"] == "compact"
    assert settings["users", "bob", "consumer_byte_rate"] == "4096"


def test_a_run_has_one_snapshot(kafka, chroot, store):
    first = take(chroot, store)
    kafka.set("/config/topics/orders", world.config(), -1)
    again = take(chroot, store, now=world.NOON + timedelta(hours=1))
    assert (first.created, again.created) == (True, False)
    assert again.manifest_uri == first.manifest_uri
    assert len(visible_snapshots(store)) == 1


def test_more_runs_a_day_and_their_order(kafka, chroot, store):
    taken = [take(chroot, store, f"run-{hour}", world.NOON + timedelta(hours=hour)).manifest for hour in (3, 1, 30)]
    assert [found.run_id for found in visible_snapshots(store, "alpha")] == ["run-1", "run-3", "run-30"]
    assert [found.run_id for found in visible_snapshots(store, "alpha", "2026-03-02")] == ["run-30"]
    assert snapshots.newest_snapshot(store, "alpha", world.NOON.date()).run_id == "run-3"
    assert snapshots.newest_snapshot(store, "beta") is None
    assert snapshots.find_snapshot(store, taken[1].snapshot_id[:-3]) == taken[1]


def test_secrets_stay_out(kafka, chroot, tmp_path):
    store = FolderStore(tmp_path / "store")
    manifest = take(chroot, store).manifest
    assert manifest.redacted == ("/config/users/alice",)
    for file in (tmp_path / "store").rglob("*"):
        if file.is_file():
            assert b"s3cr3t" not in file.read_bytes(), file
    raw = snapshots.read_raw(store, manifest)
    assert b"s3cr3t" not in b"".join(data or b"" for data in raw["data"].to_pylist())
    settings = [
        (row["key"], row["value"])
        for row in snapshots.decoded_tables(store, manifest)["configs"].to_pylist()
        if row["entity_name"] == "alice"
    ]
    assert settings == [("producer_byte_rate", "2048")]
    assert verify_snapshot(store, manifest) == []


@pytest.mark.parametrize("version", ["99999999999", "-2147483649", "1e3", '"2"', "null", "true"])
def test_an_odd_version_of_a_topic_stops_no_snapshot(kafka, chroot, store, version):
    kafka.create("/brokers/topics/odd", b'{"version":%s,"partitions":{"0":[1,2]}}' % version.encode())
    manifest = take(chroot, store).manifest
    (odd,) = [row for row in snapshots.read_table(store, manifest, "topics").to_pylist() if row["topic"] == "odd"]
    assert (odd["json_version"], odd["partition_count"]) == (1, 1)
    assert verify_snapshot(store, manifest) == []


def test_secrets_are_kept_sealed_with_a_key(kafka, chroot, store, tmp_path):
    key_file = tmp_path / "snapshot.key"
    key_file.write_bytes(base64.b64encode(os.urandom(32)))
    manifest = take(chroot, store, key_file=key_file).manifest
    raw = snapshots.read_raw(store, manifest)
    (sealed,) = [row["sealed"] for row in raw.to_pylist() if row["sealed"] is not None]
    assert b"s3cr3t" not in sealed
    sealer, alice, here = Sealer.from_file(key_file), "/config/users/alice", ("alpha", manifest.snapshot_id)
    assert manifest.key_id == sealer.key_id
    assert sealer.of(*here).open(alice, sealed) == world.PERSISTENT[alice]
    elsewhere = [
        (Sealer(bytes(32)).of(*here), alice),
        (sealer.of(*here), "/config/users/bob"),
        (sealer.of("alpha", f"{manifest.snapshot_id}x"), alice),
        (sealer.of("beta", manifest.snapshot_id), alice),
    ]
    for each, path in elsewhere:
        with pytest.raises(SnapshotKeyError, match=r"sealed with none of 1 keys.*moved here from another snapshot"):
            each.open(path, sealed)


@pytest.mark.parametrize("content", [b"short", b"!!not base64!!", base64.b64encode(b"x" * 31)])
def test_a_key_that_is_none(tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(SnapshotKeyError, match="make one with"):
        Sealer.from_file(tmp_path / "key")


def test_malformed_znodes_are_counted_not_fatal(kafka, chroot, store):
    kafka.set("/brokers/topics/orders/partitions/0/state", b"\xff\xfe", -1)
    kafka.set("/config/topics/payments", b"[]", -1)
    kafka.create("/brokers/topics/broken", b'{"partitions":{"x":[1]}}')
    result = take(chroot, store)
    bad = {row["path"]: row["reason"] for row in snapshots.read_table(store, result.manifest, "bad_rows").to_pylist()}
    assert set(bad) == {
        "/brokers/topics/broken",
        "/brokers/topics/orders/partitions/0/state",
        "/config/topics/payments",
    }
    assert "UTF-8" in bad["/brokers/topics/orders/partitions/0/state"]
    raw = snapshots.read_raw(store, result.manifest)
    assert dict(zip(raw["path"].to_pylist(), raw["data"].to_pylist(), strict=True))["/config/topics/payments"] == b"[]"
    assert verify_snapshot(store, result.manifest) == []


def test_a_wrong_chroot_names_the_right_one(kafka, server, chroot, store):
    with pytest.raises(NotKafkaTreeError, match=f"did you mean.*{chroot.rpartition('/')[2]}"):
        take(server.hosts, store)
    assert list(store.list("v1/")) == []


def test_a_chroot_that_does_not_exist(server, store):
    with pytest.raises(NoNodeError, match="nowhere"):
        take(f"{server.hosts}/nowhere", store)


def test_a_tree_that_is_not_kafkas(server, chroot, store):
    with world.session(chroot) as session:
        session.create("/something", b"")
    with pytest.raises(NotKafkaTreeError, match="found something"):
        take(chroot, store)


def test_a_wrong_chroot_names_also_one_that_is_closed(server, chroot, store):
    with world.session(chroot, auth=OPS) as session:
        session.create("/closed/brokers/ids", b"", make_parents=True, acl=OWN)
    with pytest.raises(NotKafkaTreeError, match=r"found closed \(1 znode\); did you mean the chroot /closed\?"):
        take(chroot, store)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        pytest.param(
            "/migration",
            b'{"version":0,"kraft_metadata_offset":-1,"kraft_controller_id":-1,"kraft_metadata_epoch":-1,'
            b'"kraft_controller_epoch":-1}',
            id="a migration is prepared",
        ),
        pytest.param(
            "/controller",
            b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":1}',
            id="a KRaft controller is active",
        ),
    ],
)
def test_a_cluster_on_its_way_to_kraft_is_stored_and_written_by_nobody(chroot, store, path, data):
    with world.session(chroot) as session:
        world.fill(session, controller=None)
        session.create(path, data)
        session.set(
            "/brokers/topics/orders/partitions/0/state", world.state(2, 1, (2, 1)), -1
        )  # an election would help
        found = take(chroot, store)
        with pytest.raises(MigratingClusterError, match="until a way back has ended"):
            require_zookeeper_mode(session, ClusterAddress(chroot))
    manifest = snapshots.read_manifest(store, found.manifest_uri)
    phase = phase_of(tree_of(snapshots.read_raw(store, manifest)))
    assert (phase.id is PhaseId.ZOOKEEPER, phase.may_write) == (False, False)
    with pytest.raises(RefusedError, match="the cluster is run by KRaft or on its way there"):
        plan_elections(store, "alpha", manifest=manifest.uri)


def test_nobody_answers(store):
    with pytest.raises(ZooKeeperUnreachableError, match=r"127\.0\.0\.1:1"):
        take("127.0.0.1:1/kafka", store, timeout_s=1)


def test_a_store_that_cannot_be_written_is_found_before_the_cluster_is_read(tmp_path, monkeypatch):
    class Full(MemoryStore):
        def put_new(self, key, data):
            raise StoreUnwritableError("full")

        def probe(self):
            self.put_new("probe/x", b"")

    with pytest.raises(StoreUnwritableError):
        take("127.0.0.1:1/never-asked", Full("full"))


@pytest.mark.parametrize("name", ["", "a/b", "../x", "ä"])
def test_a_name_that_cannot_be_a_key(store, name):
    with pytest.raises(ValueError, match="cluster"):
        take_snapshot(address=ClusterAddress("x"), cluster=name, store=store, run_id="r", now=world.NOON)


def test_progress_is_told(kafka, chroot, store):
    told = []
    take(chroot, store, progress=told.append)
    assert told[-1].read >= len(world.PERSISTENT)
    assert {step.phase for step in told} == {"scan", "settle"}
    assert told[0].expected > 0


def test_ten_thousand_children_and_a_large_znode(kafka, chroot, store):
    from controller_core.ports.zookeeper import Create

    kafka.create("/consumers/many", b"")
    for start in range(0, 10_000, 500):
        kafka.multi([Create(path=f"/consumers/many/{number:06}") for number in range(start, start + 500)])
    kafka.create("/consumers/large", b"x" * 1_000_000)
    for number in range(12):
        kafka.create(f"/consumers/large/{number}", b"y" * 900_000)
    result = take(chroot, store, options=ReadOptions(reply_bytes=1 << 20))
    assert result.consistent
    assert result.counts["znodes"] > 10_000
    raw = snapshots.read_raw(store, result.manifest)
    sizes = dict(zip(raw["path"].to_pylist(), raw["data_length"].to_pylist(), strict=True))
    assert sizes["/consumers/large"] == 1_000_000


def test_a_node_of_the_store_shows_json_and_text(kafka, chroot, store):
    manifest = take(chroot, store).manifest
    text = show_snapshot(manifest)
    assert "3 partitions" in text
    assert "1 left out" in text
    assert json.loads(json.dumps(manifest_json(manifest)))["run_id"] == "run-1"


def test_tables_are_fetched_and_checked(kafka, chroot, store, tmp_path):
    from controller_core.model.errors import ObjectDamagedError

    manifest = take(chroot, store).manifest
    folder = snapshots.fetch_tables(store, manifest.uri, tmp_path / "stage")
    assert {entry.name for entry in folder.iterdir()} >= {"partitions.parquet", "manifest.json", "bad_rows.parquet"}
    assert folder.relative_to(tmp_path / "stage").parts[:2] == ("cluster=alpha", "date=2026-03-01")
    stored = manifest.object("topics")
    store.put(stored.key, store.get(stored.key)[:-1])
    with pytest.raises(ObjectDamagedError, match=r"topics\.parquet.*damaged"):
        snapshots.fetch_tables(store, manifest, tmp_path / "other")
    assert snapshots.fetch_tables(store, manifest, tmp_path / "stage") == folder


def test_two_processes_of_one_run(kafka, chroot, store):
    import threading

    results = []
    with ExitStack():
        threads = [threading.Thread(target=lambda: results.append(take(chroot, store))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({result.manifest_uri for result in results}) == 1
    assert sum(result.created for result in results) == 1
    assert len(visible_snapshots(store)) == 1
    assert verify_snapshot(store, results[0].manifest) == []
    assert len([key for key in store.list("v1/cluster=") if key.endswith("raw.parquet")]) == 1
