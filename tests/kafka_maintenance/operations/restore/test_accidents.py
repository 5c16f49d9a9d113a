"""Accidents made on a real ZooKeeper, and repaired by the commands of docs/accidents.md, which are run as they stand there."""

import base64
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import ACL, Id

from controller_core import znodes
from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.snapshot.tree_writer import NewZnode, write_tree
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from kafka_maintenance.cli.arguments import PASSWORD_VARIABLE
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world

pytestmark = pytest.mark.services

DOCUMENT = (Path(__file__).parents[4] / "docs" / "accidents.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \d+ \| ([^|]+) \| [^|]+ \| `([^`]+)` \|", DOCUMENT, re.MULTILINE))
"""Accident → the command that repairs it."""
OWNER = ZooKeeperAuth(scheme="digest", username="ops", password="secret")
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
SECURED = "ZooKeeper's ACLs opened to the world"
RULES = znodes.encode_acl([znodes.AclEntry("User:ada", "Allow", "Read", "*")])
STATE = re.compile(rb'"leader_epoch":(\d+)')


def removed(session, path):
    session.client.delete(path, recursive=True)


def opened_to_the_world(session):
    for path in read_cut(session.client).znodes:
        if path != "/":
            session.client.set_acls(path, [ACL(31, Id("world", "anyone"))])


def a_week_old(session):
    """An old copy of ZooKeeper's data came up: later topics are missing, earlier ones are there again."""
    removed(session, "/brokers/topics/payments")
    session.set("/brokers/topics/orders/partitions/0/state", world.state(2, 0, (2,)), -1)
    session.set("/config/topics/orders", world.config(retention_ms="7"), -1)
    session.create("/brokers/topics/deleted-since", b'{"version":1,"partitions":{"0":[1]}}')
    session.create("/config/topics/deleted-since", world.config())


def another_cluster_copied_over(session):
    """`zkcopy` with the wrong target: the other cluster's id, topics and configs lie over ours."""
    session.set("/cluster/id", json.dumps({"version": "1", "id": OTHER_ID}).encode(), -1)
    session.set("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[7]}}', -1)
    session.set("/brokers/topics/orders/partitions/0/state", world.state(7, 900, (7,)), -1)
    session.create("/brokers/topics/foreign", b'{"version":1,"partitions":{"0":[7]}}')


def all_gone(session):
    for name in session.children("/"):
        if name != "config_before":
            removed(session, f"/{name}")


def brokers_started_on_an_empty_one(session):
    """The disks were lost, and brokers made a new cluster of the empty ensemble before anybody saw it."""
    all_gone(session)
    session.create("/cluster/id", json.dumps({"version": "1", "id": OTHER_ID}).encode(), make_parents=True)
    for path in ("/brokers/ids", "/brokers/topics", "/config/topics", "/admin/delete_topics", "/consumers"):
        session.create(path, b"", make_parents=True)
    session.create("/controller_epoch", b"1")


def half_deleted(session):
    for path in ("/config", "/cluster", "/brokers/topics/orders"):
        removed(session, path)
    session.set("/config_before", b"kept", -1)


def every_config_altered(session):
    for topic in ("orders", "payments"):
        session.set(f"/config/topics/{topic}", world.config(retention_ms="1"), -1)


def configs_littered(session):
    for number in range(5):
        session.create(f"/config/topics/orders-{number}", world.config(retention_ms="1"))


ACCIDENTS: dict[str, Callable[[Any], None]] = {
    "`deleteall /brokers/topics`": lambda session: removed(session, "/brokers/topics"),
    "`/config` gone": lambda session: removed(session, "/config"),
    "`/brokers` gone": lambda session: removed(session, "/brokers"),
    "`/cluster` gone": lambda session: removed(session, "/cluster"),
    "`/controller_epoch` gone": lambda session: removed(session, "/controller_epoch"),
    "one topic's znodes gone": lambda session: removed(session, "/brokers/topics/orders"),
    SECURED: opened_to_the_world,
    "SCRAM users gone": lambda session: removed(session, "/config/users/alice"),
    "Kafka's ACLs gone": lambda session: removed(session, "/kafka-acl"),
    "`/latest_producer_id_block` gone": lambda session: removed(session, "/latest_producer_id_block"),
    "a restored ZooKeeper is a week old": a_week_old,
    "another cluster's chroot copied over": another_cluster_copied_over,
    "an automation altered every topic config": every_config_altered,
    "an automation littered `/config/topics`": configs_littered,
    "an ensemble lost its disks": all_gone,
    "brokers started on an empty ensemble": brokers_started_on_an_empty_one,
    "a `deleteall /` that was stopped half-way": half_deleted,
    "`/admin` gone": lambda session: removed(session, "/admin"),
}


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
