"""Accidents made on a real ZooKeeper, and repaired by the commands of docs/accidents.md, which are run as they stand there."""

import base64
import re
import shlex

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.snapshot.tree_writer import NewZnode, write_tree
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.cli.main import main
from kafka_maintenance.cli.zookeeper_arguments import PASSWORD_VARIABLE
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.restore.accidents import (
    ACCIDENTS,
    OTHER_ID,
    OWNER,
    ROWS,
    RULES,
    SECURED,
    removed,
)

pytestmark = pytest.mark.services
STATE = re.compile(rb'"leader_epoch":(\d+)')


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "snapshot.key"
    path.write_bytes(base64.b64encode(b"k" * 32))
    return path


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command line; what it printed. `said`: on standard error."""
    monkeypatch.setenv(PASSWORD_VARIABLE, OWNER.password)

    def call(line, status=0, said=""):
        capsys.readouterr()
        found = main(shlex.split(line)[1:])
        printed = capsys.readouterr()
        assert (found, said in printed.err) == (status, True), printed
        return printed.out

    return call


def contents(hosts, auth=None):
    """Path → (data, ACL) of the persistent znodes, and path → leader epoch."""
    with connect(hosts, auth=auth) as session:
        cut = read_cut(session.client)
    tree, epochs = {}, {}
    for path, znode in cut.znodes.items():
        found = STATE.search(znode.data or b"") if path.endswith("/state") else None
        if found:
            epochs[path] = int(found[1])
        plain = STATE.sub(b"", znode.data or b"")
        if path in {"/controller_epoch", "/latest_producer_id_block"}:
            plain = b""
        if not znode.decoded_stat.ephemeral_owner and not path.startswith("/config/changes/"):
            tree[path] = plain, cut.acls[path]
    return tree, epochs


def test_the_document_names_the_accidents():
    assert list(ROWS) == list(ACCIDENTS)
    assert len(ROWS) >= 15


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_an_accident_is_repaired_by_its_documented_command(accident, chroot, tmp_path, key_file, run):
    auth = OWNER if accident == SECURED else None
    store = FolderStore(tmp_path / "store")
    with connect(chroot, auth=auth, create_chroot=True) as session:
        for path, data in {**world.PERSISTENT, "/kafka-acl/Topic/orders": RULES, "/config_before": b"kept"}.items():
            session.create(path, data, make_parents=True)
        snapshot = take_snapshot(
            address=ClusterAddress(chroot, auth=auth),
            cluster="blue",
            store=store,
            run_id="r",
            now=world.NOON,
            key_file=key_file,
        ).manifest
        before, epochs = contents(chroot, auth)
        ACCIDENTS[accident](session)
    assert contents(chroot, auth)[0] != before, "the accident is one"
    line = ROWS[accident].replace("SNAPSHOT", snapshot.snapshot_id).replace("ZOOKEEPER", chroot)
    line = line.replace("KEY", str(key_file)).replace("CLUSTER_ID", world.CLUSTER_ID)
    line += f" --store {store.uri}"
    shown = run(line, **SHOWN)
    (digest,) = [each.removeprefix("digest ") for each in shown.splitlines() if each.startswith("digest ")]
    run(f"{line} --approve {digest} --approver ada")
    after, raised = contents(chroot, auth)
    assert after == before
    lost = {path for path in epochs if raised[path] != epochs[path]}
    assert all(raised[path] >= epochs[path] for path in epochs)
    assert bool(lost) == ("/brokers" in accident or accident in WITH_STATES)
    assert "everything asked for is there already" in run(line)


SHOWN = {"status": 1, "said": "nothing written; after reading the difference"}
WITH_STATES = {
    "one topic's znodes gone",
    "a restored ZooKeeper is a week old",
    "another cluster's chroot copied over",
    "an ensemble lost its disks",
    "brokers started on an empty ensemble",
    "a `deleteall /` that was stopped half-way",
}


def test_a_tree_of_which_nothing_survives_is_not_taken_for_ours_without_a_word(kafka, chroot, tmp_path, run, key_file):
    store = FolderStore(tmp_path / "store")
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="blue", store=store, run_id="r", now=world.NOON
    ).manifest
    with world.session(f"{chroot}-other") as other:
        for path in ("/brokers/ids", "/brokers/topics", "/admin"):
            other.create(path, b"", make_parents=True)
    line = f"kafka-maintenance restore {manifest.snapshot_id} --store {store.uri} --zookeeper {chroot}-other --path /config"
    run(line, status=1, said="refused")
    assert "BY WORD: --cluster-id says" in run(f"{line} --cluster-id {world.CLUSTER_ID}", **SHOWN)
    run(f"{line} --cluster-id {OTHER_ID}", status=1, said="refused")


def test_fill_keeps_what_differs_and_says_so(kafka, chroot, tmp_path, run):
    store = FolderStore(tmp_path / "store")
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="blue", store=store, run_id="r", now=world.NOON
    ).manifest
    for path in ("/brokers/ids/1", "/brokers/ids/2", "/controller"):
        kafka.delete(path, -1)
    kafka.set("/config/topics/orders", world.config(retention_ms="7"), -1)
    kafka.create("/config/topics/new", world.config())
    removed(kafka, "/config/clients")
    line = f"kafka-maintenance restore {manifest.snapshot_id} --store {store.uri} --zookeeper {chroot} --whole --fill"
    shown = run(line, **SHOWN)
    assert "kept, 1 znode with other data: /config/topics/orders" in shown
    assert "kept, 1 znode that the snapshot does not have: /config/topics/new" in shown
    assert "2 znodes: 2 created, 0 set, 0 deleted" in shown
    mirrored = run(line.replace("--fill", "--mirror"), **SHOWN)
    assert "  delete /config/topics/new" in mirrored
    assert "  set    /config/topics/orders" in mirrored


def test_an_automation_that_altered_5000_configs(kafka, chroot, tmp_path, run):
    """More differences than a plan shows stand in a file; one command sets all of them back."""
    store = FolderStore(tmp_path / "store")
    paths = [f"/config/topics/t{number:04}" for number in range(5000)]
    write_tree(kafka.client, [NewZnode(path, world.config(retention_ms="1")) for path in paths])
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="blue", store=store, run_id="r", now=world.NOON
    ).manifest
    for changed in [kafka.client.set_async(path, world.config(retention_ms="2")) for path in paths]:
        changed.get()  # all of them stand before the restore looks
    line = f"kafka-maintenance restore {manifest.snapshot_id} --store {store.uri} --zookeeper {chroot} --configs 'topics/t*'"
    shown = run(line, **SHOWN)
    assert "every difference stands in the file" in shown
    (listing,) = [key for key in store.list(f"{manifest.prefix}/plans/") if key.endswith(".txt")]
    text = store.get(listing).decode()
    assert text.count("  set    /config/topics/t") == len(paths)
    assert '"retention.ms": "2"' in text
    (digest,) = [each.removeprefix("digest ") for each in shown.splitlines() if each.startswith("digest ")]
    run(f"{line} --approve {digest} --approver ada")
    assert {answer[0] for answer in kafka.get_many(paths)} == {world.config(retention_ms="1")}
    notices = [kafka.get(f"/config/changes/{name}")[0] for name in kafka.children("/config/changes")]
    assert len({notice for notice in notices if b"topics/t" in notice}) == len(paths)
