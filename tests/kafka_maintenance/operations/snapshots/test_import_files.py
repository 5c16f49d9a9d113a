"""Snapshots of the past from a server's own files, by the command."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper_files.data_directory import DataDirectory
from controller_core.adapters.zookeeper_files.tree import ROOT
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.snapshots import catalog
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.visible_snapshots import visible_snapshots
from tests.zookeeper_logs import create, log, old_snapshot, set_data, transaction, znode

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def ms(hours):
    return int((MIDNIGHT + timedelta(hours=hours)).timestamp() * 1000)


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


@pytest.fixture
def run(capsys, store, tmp_path):
    def call(*arguments, status=0):
        capsys.readouterr()
        found = main(
            ["import", str(tmp_path / "data"), "--cluster", "alpha", "--store", str(tmp_path / "store"), *arguments]
        )
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.err if status else printed.out

    return call


@pytest.fixture
def folder(tmp_path):
    """A cluster made at 00:10 below /kafka, whose one config changes at 00:20, 01:30 and 05:00."""
    paths = [
        "/kafka",
        "/kafka/brokers",
        "/kafka/brokers/ids",
        "/kafka/brokers/topics",
        "/kafka/cluster",
        "/kafka/config",
    ]
    paths += ["/kafka/config/topics"]
    data = tmp_path / "data"
    old_snapshot(data, 0, [(ROOT, znode())])
    made = [(path, b"") for path in paths]
    made += [
        ("/kafka/cluster/id", world.PERSISTENT["/cluster/id"]),
        ("/kafka/config/topics/orders", world.config(retention_ms="0")),
    ]
    entries = [
        transaction(number, 1, create(path, content, parent_cversion=number), time_ms=ms(1 / 6))
        for number, (path, content) in enumerate(made, start=1)
    ]
    for number, hours in enumerate((1 / 3, 1.5, 5), start=1):
        change = set_data("/kafka/config/topics/orders", world.config(retention_ms=str(number)), number)
        entries.append(transaction(len(made) + number, 5, change, time_ms=ms(hours)))
    log(data, 1, *entries)
    return data


def retention(store, manifest):
    table = catalog.read_table(store, manifest, "configs").to_pylist()
    return [row["value"] for row in table if row["key"] == "retention.ms"]


def test_a_snapshot_of_every_hour_in_which_something_changed(folder, run, store):
    dry = run("--chroot", "/kafka", "--every", "1h", "--dry-run")
    assert "dry run, nothing was written; without it: 3 snapshots imported" in dry
    out = run("--chroot", "/kafka", "--every", "1h")
    assert "3 snapshots imported, 0 were there; in 2 periods nothing changed" in out
    manifests = visible_snapshots(store, "alpha")
    assert [manifest.taken_at.hour for manifest in manifests] == [1, 2, 5]
    assert [retention(store, manifest) for manifest in manifests] == [["1"], ["2"], ["3"]]
    assert {(each.consistent, each.method, each.chroot, each.kafka_cluster_id) for each in manifests} == {
        (True, "zookeeper_files", "/kafka", world.CLUSTER_ID)
    }
    assert [verify_snapshot(store, manifest) for manifest in manifests] == [[], [], []]
    assert "0 snapshots imported, 3 were there" in run("--chroot", "/kafka", "--every", "1h"), "once is enough"
    assert len(visible_snapshots(store, "alpha")) == 3


@pytest.mark.parametrize(
    ("arguments", "value", "taken_at"),
    [
        pytest.param(["--at", "2026-03-01T01:29"], "1", "2026-03-01T01:29:00", id="a minute before a change"),
        pytest.param(["--at", "2026-03-01T02:30+01:00"], "2", "2026-03-01T01:30:00", id="a time of another zone"),
        pytest.param(
            ["--at", "2027-01-01T00:00"], "3", "2026-03-01T05:00:00", id="later than the files: their last moment"
        ),
        pytest.param(["--zxid", "0xb"], "2", "2026-03-01T01:30:00", id="a transaction"),
        pytest.param([], "3", "2026-03-01T05:00:00", id="the newest moment"),
    ],
)
def test_one_moment(folder, run, store, arguments, value, taken_at):
    run("--chroot", "/kafka", *arguments)
    (manifest,) = visible_snapshots(store, "alpha")
    assert (retention(store, manifest), manifest.taken_at.isoformat()[:19]) == ([value], taken_at)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--chroot", "/kafka", "--at", "2026-02-28T00:00"], "the files do not reach back so far", id="too early"
        ),
        pytest.param(["--chroot", "/kafka", "--zxid", "ff"], "found zxids 0x0 to 0xc", id="a zxid that is not there"),
        pytest.param(["--chroot", "/kafka", "--every", "7d"], "expected a full period of 7 days", id="no full period"),
        pytest.param([], "did you mean --chroot /kafka", id="another chroot"),
        pytest.param(["--chroot", "/kafka", "--zxid", "2"], "no Kafka cluster", id="before the cluster was made"),
        pytest.param(["--chroot", "/kafka", "--key-file", "/nowhere"], "key file", id="no key"),
    ],
)
def test_bad_input_stores_nothing(folder, run, store, arguments, message):
    assert message in run(*arguments, status=2)
    assert visible_snapshots(store, "alpha") == []


def test_another_chroot_of_what_was_imported_is_refused(folder, run, store):
    run("--chroot", "/kafka", "--every", "1h")
    assert "expected chroot /kafka, with which its snapshot" in run("--chroot", "/nope", "--every", "1h", status=2)
    assert "found /;" in run("--every", "1h", status=2)


def test_another_cluster_is_refused(folder, run, store):
    log(
        folder,
        13,
        transaction(
            13, 5, set_data("/kafka/cluster/id", b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}', 1), time_ms=ms(6)
        ),
    )
    run("--chroot", "/kafka", "--zxid", "c")
    assert "expected Kafka cluster id" in run("--chroot", "/kafka", status=1)
    run("--chroot", "/kafka", "--new-cluster-id")
    assert len(visible_snapshots(store, "alpha")) == 2


def test_a_cluster_that_moved_to_kraft_is_passed_over(folder, run, store):
    log(folder, 13, transaction(13, 1, create("/kafka/migration", b"{}", parent_cversion=5), time_ms=ms(6)))
    out = run("--chroot", "/kafka", "--every", "1h")
    assert "no snapshot of 2026-03-01 06:00:00+00:00, zxid 0xd: the cluster moved to KRaft" in out
    assert len(visible_snapshots(store, "alpha")) == 3


def test_a_file_of_an_old_server_without_its_log_is_not_called_consistent(folder, run, store):
    nodes = list(DataDirectory(folder).moment(12).tree.nodes.items())
    for path in (folder / "snapshot.0", folder / "log.1"):
        path.unlink()
    old_snapshot(folder, 12, nodes)
    out = run("--chroot", "/kafka")
    assert "NOT consistent (from snapshot.c: the file may hold changes of later transactions" in out
    (manifest,) = visible_snapshots(store, "alpha")
    assert (manifest.consistent, manifest.taken_at) == (False, MIDNIGHT + timedelta(hours=5)), "the newest znode's time"


@pytest.mark.services
def test_an_import_is_what_a_snapshot_of_the_living_cluster_is(server, kafka, chroot, store, run, tmp_path):
    (tmp_path / "data").symlink_to(server.workspace.folder / "zookeeper")
    taken = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="live", now=world.NOON
    ).manifest
    kafka.set("/config/topics/orders", world.config(retention_ms="77"), -1)
    out = json.loads(run("--chroot", taken.chroot, "--zxid", f"{taken.zxid:x}", "--json"))
    imported = catalog.read_manifest(store, out["snapshots"][0]["manifest_uri"])
    assert catalog.read_raw(store, imported).equals(catalog.read_raw(store, taken))
    assert imported.redacted == taken.redacted == ("/config/users/alice",)
