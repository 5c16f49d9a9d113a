"""A real server starts from the file that an export wrote, and has every znode with its stat and ACL."""

import base64
import os
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.format import raw_layer
from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper_files import snapshot_file
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.snapshots import catalog
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import Workspace, ZooKeeperServer
from tests.kafka_maintenance import snapshot_world as world
from tests.snapshot_writer import client_of
from tests.zookeeper_history import write_history

pytestmark = pytest.mark.services


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(base64.b64encode(os.urandom(32)))
    return path


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "copy")


@pytest.fixture
def folder(workspace):
    """Where a server of this workspace looks for its files."""
    found = workspace.folder / "zookeeper" / "version-2"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def export(capsys, store, folder):
    def call(*arguments, status=0, target=folder):
        capsys.readouterr()
        found = main(["export", "newest", "--store", store.uri, "--zookeeper-snapshot", str(target), *arguments])
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.err if status else printed.out

    return call


def take(chroot, store, run_id="run", **options):
    address = ClusterAddress(chroot)
    return take_snapshot(
        address=address, cluster="alpha", store=store, run_id=run_id, now=world.NOON, **options
    ).manifest


@contextmanager
def started(workspace, **options):
    with ZooKeeperServer(workspace, **options) as server:
        yield server


def facts(server):
    return dict(line.split("\t") for line in server.command("mntr").splitlines() if "\t" in line)


def rows(hosts, options=None):
    with client_of(hosts) as client:
        cut = read_cut(client, options)
    return cut, raw_layer(cut).table


def test_a_server_has_every_znode_as_it_was(server, kafka, chroot, store, key_file, workspace, export):
    """With ephemeral znodes, secrets and ACLs, at the place where it was."""
    kafka.client.set_acls(
        "/config/users/bob", [ACL(1, Id("digest", "tool:x5Mqpb0hBvcEFTSZHKAKKhLTdV0=")), ACL(31, Id("world", "anyone"))]
    )
    kafka.client.create("/deleted", acl=OPEN_ACL_UNSAFE)
    kafka.client.delete("/deleted")
    take(chroot, store, key_file=key_file)
    _, before = rows(chroot)
    out = export("--key-file", str(key_file))
    with started(workspace) as copy:
        cut, after = rows(f"{copy.hosts}{kafka.client.chroot}")
        assert after.equals(before)
        assert cut.znodes["/config/users/alice"].data == world.PERSISTENT["/config/users/alice"]
        assert int(facts(copy)["zk_digest_mismatches_count"]) == 0
    assert f"{before.num_rows + 4} znodes and 1 session at zxid " in out, "the root and ZooKeeper's own tree"


def test_a_history_of_a_whole_ensemble_comes_back(store, workspace, export):
    """Random znodes, versions and ACLs at the root, which has a stat of its own."""
    with ZooKeeperServer() as server:
        with world.session(server.hosts) as session:
            world.fill(session, brokers=(), controller=None)
            session.delete("/config/users/alice", -1)
        write_history(server, steps=300, looks=0, features=False)
        with client_of(server.hosts) as client:
            whole = ReadOptions(roots=frozenset(f"/{name}" for name in client.get_children("/")) - {"/zookeeper"})
        take(server.hosts, store)
        assert "trees beside Kafka's at the root of the ensemble" in export(status=1)
        take(server.hosts, store, "whole", options=whole)
        _, before = rows(server.hosts, whole)
    export()
    with started(workspace) as copy:
        assert rows(copy.hosts, whole)[1].equals(before)
        assert int(facts(copy)["zk_digest_mismatches_count"]) == 0
        with client_of(copy.hosts) as client:
            assert client.exists("/zookeeper/config") is not None
            client.create("/new")


def test_the_server_compares_the_digest(chroot, kafka, store, key_file, monkeypatch, workspace, export):
    take(chroot, store, key_file=key_file)
    right = snapshot_file.digest_of
    monkeypatch.setattr(snapshot_file, "digest_of", lambda path, node: right(path, node) + (path == "/zookeeper"))
    export("--key-file", str(key_file))
    with started(workspace) as copy:
        assert int(facts(copy)["zk_digest_mismatches_count"]) == 1


def test_without_ephemerals_and_elsewhere(chroot, kafka, store, key_file, workspace, export):
    take(chroot, store, key_file=key_file)
    out = export("--key-file", str(key_file), "--without-ephemerals", "--chroot", "/new/home", "--epoch-bump", "10")
    assert "and 0 sessions" in out
    with started(workspace) as copy, client_of(f"{copy.hosts}/new/home") as client:
        assert client.get_children("/brokers/ids") == []
        assert client.get("/controller_epoch")[0] == b"13"
        assert client.get("/config/topics/orders")[0] == world.PERSISTENT["/config/topics/orders"]


@pytest.mark.parametrize("next_epoch", [False, True])
def test_a_client_that_has_seen_later_zxids(chroot, kafka, store, key_file, workspace, export, next_epoch):
    """A server refuses it, unless the file is named after a later epoch."""
    manifest = take(chroot, store, key_file=key_file)
    export("--key-file", str(key_file), *(["--next-epoch"] if next_epoch else []))
    with started(workspace) as copy:
        client = KazooClient(copy.hosts, timeout=20)
        client.last_zxid = manifest.zxid + 100
        try:
            if next_epoch:
                client.start(timeout=20)
            else:
                with pytest.raises(KazooTimeoutError):
                    client.start(timeout=3)
        finally:
            client.stop()
            client.close()


@pytest.mark.parametrize("next_epoch", [False, True])
def test_after_a_roll_back_no_acl_of_the_lost_history_is_taken_over(
    chroot, kafka, store, key_file, workspace, export, next_epoch
):
    """The ACL was changed once in either history: czxid, ctime and aversion are the same."""
    path, everybody = "/config/topics/orders", ACL(31, Id("world", "anyone"))
    take(chroot, store, key_file=key_file)
    export("--key-file", str(key_file), *(["--next-epoch"] if next_epoch else []))
    kafka.client.set_acls(path, [everybody, ACL(31, Id("ip", "10.0.0.1"))])
    for _ in range(20):
        kafka.set("/controller_epoch", b"4", -1)
    lost = take(chroot, store, "lost")
    with started(workspace) as copy, client_of(f"{copy.hosts}{kafka.client.chroot}") as client:
        client.set_acls(path, [everybody, ACL(31, Id("ip", "10.9.9.9"))])
        taken = take(f"{copy.hosts}{kafka.client.chroot}", store, "after")
    assert (taken.zxid > lost.zxid) == next_epoch
    assert (taken.acls["read"], taken.acls["carried"]) == (1, taken.counts["znodes"] - 1)
    raw = catalog.read_raw(store, taken)
    acls = dict(zip(raw["path"].to_pylist(), raw["acl"].to_pylist(), strict=True))
    assert acls[path] == '[[31, "world", "anyone"], [31, "ip", "10.9.9.9"]]'


def test_what_a_snapshot_lacks_is_said(chroot, kafka, store, workspace, export):
    kafka.client.set_acls("/config/users/bob", [ACL(31, Id("digest", "tool:hash")), ACL(1, Id("world", "anyone"))])
    take(chroot, store)
    refusal = export(status=1)
    assert "/config/users/alice (secret)" in refusal
    assert "the ACL of /config/users/bob" in refusal
    assert list(workspace.folder.glob("zookeeper/version-2/*")) == []
    out = export("--incomplete")
    assert "MISSING: /config/users/alice (secret)" in out
    with started(workspace) as copy, client_of(f"{copy.hosts}{kafka.client.chroot}") as client:
        assert client.exists("/config/users/alice") is None
        with pytest.raises(NoAuthError):  # nobody's, although everybody could read it
            client.get("/config/users/bob")


@pytest.mark.parametrize(
    ("make", "target", "message"),
    [
        pytest.param("log.1", "", "found log.1; move them away", id="files of a server"),
        pytest.param(None, "backup", "expected the name 'snapshot.", id="another name"),
    ],
)
def test_bad_targets(chroot, kafka, store, key_file, folder, export, make, target, message):
    take(chroot, store, key_file=key_file)
    if make:
        (folder / make).touch()
    assert message in export("--key-file", str(key_file), target=folder / target, status=2)


def test_a_file_is_for_its_owner_alone(chroot, kafka, store, key_file, folder, export):
    manifest = take(chroot, store, key_file=key_file)
    export("--key-file", str(key_file), target=folder / f"snapshot.{manifest.zxid:x}")
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert catalog.read_manifest(store, manifest.uri).zxid == int(path.suffix[1:], 16)


@pytest.mark.kafka
@pytest.mark.parametrize("kafka_version", ["1.1", "2.4"])
def test_old_servers_start_from_it(monkeypatch, chroot, kafka, store, key_file, workspace, export, kafka_version):
    from kafka_maintenance.servers import zookeeper as local
    from tests.kafka_versions import class_path_of

    take(chroot, store, key_file=key_file)
    with client_of(chroot) as client:
        before = read_cut(client).znodes
    export("--key-file", str(key_file))
    monkeypatch.setattr(local, "class_path", lambda: class_path_of(kafka_version))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dzookeeper.jmx.log4j.disable=true")
    with started(workspace) as copy:
        monkeypatch.undo()
        with client_of(f"{copy.hosts}{kafka.client.chroot}") as client:
            assert read_cut(client).znodes == before
