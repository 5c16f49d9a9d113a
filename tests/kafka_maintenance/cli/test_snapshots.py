"""The time machine as a person uses it: through the command line."""

import json
from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world

pytestmark = pytest.mark.services

DAY = timedelta(days=1)


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def run(capsys, store):
    """Runs a command; its exit status, what it printed, what it told."""

    def call(*arguments, status=0):
        capsys.readouterr()
        found = main([*arguments, "--store", store])
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.out

    return call


@pytest.fixture
def snapshot(kafka, chroot, store):
    return take_snapshot(
        address=ClusterAddress(chroot),
        cluster="alpha",
        store=FolderStore(store_path(store)),
        run_id="r0",
        now=world.NOON,
    ).manifest


def store_path(store):
    from pathlib import Path

    return Path(store)


def test_five_commands_bring_a_topics_configs_back(snapshot, kafka, chroot, run, store):
    """The README's promise, command by command."""
    kafka.delete("/config/topics/orders", -1)
    assert snapshot.snapshot_id in run("snapshots", "list", "--cluster", "alpha")
    assert "config retention.ms = 1000" in run("blame", "orders", "--cluster", "alpha")
    assert "configs removed: 2" in run("diff", snapshot.snapshot_id, "--zookeeper", chroot)
    what = ("restore", snapshot.snapshot_id, "--zookeeper", chroot, "--topics", "orders")
    run(*what, "--dry-run")
    assert not FolderStore(store_path(store)).list(f"{snapshot.prefix}/plans/")
    shown = run(*what, status=1)
    (digest,) = [line.removeprefix("digest ") for line in shown.splitlines() if line.startswith("digest ")]
    run(*what, "--approve", digest)
    assert kafka.get("/config/topics/orders")[0] == world.PERSISTENT["/config/topics/orders"]
    assert len(kafka.children("/config/changes")) == 1
    assert "everything asked for is there already" in run(*what)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(("--topics", "nosuchtopic"), "found topics ('nosuchtopic',)", id="another topic"),
        pytest.param(("--topics", "orders", "--topics", "payments"), "('orders', 'payments')", id="more topics"),
        pytest.param(("--topics", "orders", "--without-acls"), "acls True, found acls False", id="another option"),
        pytest.param(("--topics", "orders", "--cluster-id", "other"), "found cluster_id 'other'", id="another cluster"),
    ],
)
def test_what_is_approved_is_what_the_arguments_say(asked, said, snapshot, kafka, chroot, run):
    kafka.delete("/config/topics/orders", -1)
    what = ("restore", snapshot.snapshot_id, "--zookeeper", chroot)
    digest = json.loads(run(*what, "--topics", "orders", "--json", status=1))["digest"]
    told = json.loads(run(*what, *asked, "--approve", digest, "--json", status=1))["message"]
    assert said in told
    assert not kafka.exists("/config/topics/orders")
    run(*what, "--approve", digest, status=2)
    run(*what, "--topics", "orders", "--approve", digest)


def test_a_digest_that_the_snapshot_has_no_plan_of_is_refused(snapshot, kafka, chroot, run, store, capsys):
    kafka.delete("/config/topics/orders", -1)
    what = ("--zookeeper", chroot, "--topics", "orders")
    assert main(["restore", "newest", *what, "--store", store]) == 1
    *_, hint = capsys.readouterr().err.splitlines()
    assert f"with {snapshot.snapshot_id} as SNAPSHOT and: --approve " in hint
    take_snapshot(
        address=ClusterAddress(chroot),
        cluster="alpha",
        store=FolderStore(store_path(store)),
        run_id="later",
        now=world.NOON + DAY,
    )
    told = json.loads(run("restore", "newest", *what, "--approve", hint.split()[-1], "--json", status=1))["message"]
    assert "found none; `newest` may have moved on" in told
    run("restore", snapshot.snapshot_id, *what, "--approve", hint.split()[-1])


def test_a_restore_beside_a_plan_that_waits_is_refused_with_what_to_do(snapshot, kafka, chroot, run, store):
    kafka.delete("/config/topics/orders", -1)
    what = ("restore", snapshot.snapshot_id, "--zookeeper", chroot, "--topics", "orders")
    shown = run(*what, status=1)
    (digest,) = [line.removeprefix("digest ") for line in shown.splitlines() if line.startswith("digest ")]
    waits = world.waiting_plan(kafka, FolderStore(store_path(store)))
    told = json.loads(run(*what, "--approve", digest, "--json", status=1))["message"]
    assert f"plan {waits}, approved by 'olivia', is begun" in told
    assert "kafka-maintenance stop" in told
    assert not kafka.exists("/config/topics/orders")
    run("stop", waits, "--cluster", "alpha", "--reason", "a restore")
    run(*what, "--approve", digest)
    assert kafka.exists("/config/topics/orders")


@pytest.mark.parametrize("says", ["never", "with-signed-approval"])
def test_neither_a_restore_nor_a_removal_goes_round_the_policy(says, snapshot, kafka, chroot, run, tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nclusters: {{alpha: {{command_may_apply: {says}}}}}\n")
    kafka.delete("/config/topics/orders", -1)
    what = ("restore", snapshot.snapshot_id, "--zookeeper", chroot, "--topics", "orders")
    (digest,) = [
        line.removeprefix("digest ") for line in run(*what, status=1).splitlines() if line.startswith("digest ")
    ]
    run(*what, "--approve", digest, "--policy", str(policy), status=1)
    assert not kafka.exists("/config/topics/orders")
    keep = ("--keep-last", "1", "--keep-daily", "0", "--keep-weekly", "0", "--keep-monthly", "0")
    run("snapshots", "retain", *keep, "--approve", "0" * 64, "--policy", str(policy), status=1)
    run(*what, "--approve", digest)
    assert kafka.exists("/config/topics/orders")


def test_a_snapshot_that_goes_easy_on_the_cluster(kafka, chroot, run):
    gentle = ("--batch-count", "5", "--pause-ms", "1")
    shown = run("snapshot", "--zookeeper", chroot, "--cluster", "alpha", *gentle, "--dry-run")
    assert "dry run, nothing was written; without it: snapshot taken: consistent at zxid" in shown
    run("snapshots", "verify", "newest", "--cluster", "alpha", status=2)
    assert "consistent at zxid" in run("snapshot", "--zookeeper", chroot, "--cluster", "alpha", *gentle)
    assert run("snapshots", "verify", "newest", "--cluster", "alpha").endswith("whole\n")


def test_brokers_that_do_not_answer_leave_a_snapshot_and_one_document(kafka, chroot, run):
    asked = ("--bootstrap-servers", "nobody.invalid:9092")
    found = json.loads(run("snapshot", "--zookeeper", chroot, "--cluster", "alpha", *asked, "--json", status=3))
    assert found["error"] == "SizesUnknownError"
    assert run("snapshots", "verify", "newest", "--cluster", "alpha").endswith("whole\n")


def test_list_show_verify(snapshot, run):
    assert "1 snapshot in" in run("snapshots", "list")
    for spelled in ("2026-03-01", "20260301"):
        assert "1 snapshot in" in run("snapshots", "list", "--cluster", "alpha", "--date", spelled)
    assert "3 partitions" in run("snapshots", "show", "newest")
    assert run("snapshots", "verify", snapshot.snapshot_id[:20]).endswith("whole\n")
    (listed,) = json.loads(run("snapshots", "list", "--json"))["snapshots"]
    assert listed["digest"] == snapshot.digest


@pytest.mark.parametrize("action", ["list", "retain"])
def test_a_cluster_that_is_not_there_is_refused_with_those_that_are(snapshot, run, action):
    assert (
        "known are alpha" in json.loads(run("snapshots", action, "--cluster", "alhpa", "--json", status=2))["message"]
    )


def test_a_damaged_manifest_hides_no_other_snapshot(snapshot, kafka, chroot, run, store, caplog):
    """The commands of an emergency, with the newest date and another cluster damaged."""
    newer, foreign = (
        take_snapshot(
            address=ClusterAddress(chroot),
            cluster=cluster,
            store=FolderStore(store_path(store)),
            run_id="r",
            now=world.NOON + DAY,
        ).manifest
        for cluster in ("alpha", "beta")
    )
    for damaged in (newer, foreign):
        (store_path(store) / damaged.key).write_text("{")
    kafka.delete("/config/topics/orders", -1)
    listed = run("snapshots", "list")
    assert [newer.uri in listed, foreign.uri in listed, "1 snapshot in" in listed] == [True, True, True]
    run("snapshots", "show", "newest", status=2)
    alpha = ("--cluster", "alpha")
    for name, where in ((snapshot.snapshot_id, ()), ("newest", alpha)):
        assert snapshot.snapshot_id in run("snapshots", "show", name, *where)
        assert "--replica-assignment" in run("kit", name, "--topics", "orders", *where)
        run("diff", name, snapshot.snapshot_id, *where)
        run("restore", name, "--zookeeper", chroot, "--topics", "orders", *where, "--dry-run")
        assert (newer.uri in caplog.text) is bool(where)
    assert newer.uri in run("blame", "orders", *alpha)


def test_what_proves_the_newest_snapshot_fails_when_it_is_passed_over(snapshot, chroot, run, store):
    later = take_snapshot(
        address=ClusterAddress(chroot),
        cluster="alpha",
        store=FolderStore(store_path(store)),
        run_id="r",
        now=world.NOON + DAY,
    ).manifest
    (store_path(store) / later.key).write_text("{")
    for command in (("snapshots", "verify", "newest"), ("drill",)):
        out = run(*command, "--cluster", "alpha", status=4)
        assert [later.uri in out, snapshot.uri in out] == [True, True]


def test_verify_of_a_damaged_snapshot(snapshot, run, store):
    stored = snapshot.object("raw")
    content = bytearray(store_path(store).joinpath(stored.key).read_bytes())
    content[100] ^= 1
    store_path(store).joinpath(stored.key).write_bytes(content)
    out = run("snapshots", "verify", "newest", status=4)
    assert "is damaged" in out
    assert "1 things are wrong" in out


def test_fetch_decodes_again(snapshot, run, tmp_path):
    run("snapshots", "fetch", "newest", "--output", str(tmp_path / "out"))
    assert (tmp_path / "out" / "partitions.parquet").stat().st_size > 0


def test_pin_and_retain(snapshot, kafka, chroot, run, store):
    for day in range(1, 4):
        kafka.set("/controller_epoch", b"%d" % day, -1)
        take_snapshot(
            address=ClusterAddress(chroot),
            cluster="alpha",
            store=FolderStore(store_path(store)),
            run_id=f"r{day}",
            now=world.NOON + timedelta(days=day),
        )
    pin = ("snapshots", "pin", snapshot.snapshot_id, "--reason", "before the upgrade")
    run(*pin, "--dry-run")
    assert "pinned" not in run("snapshots", "list")
    run(*pin)
    policy = ("--keep-last", "1", "--keep-daily", "0", "--keep-weekly", "0", "--keep-monthly", "0")
    plan = json.loads(run("snapshots", "retain", *policy, "--json", status=1))
    assert [len(plan["kept"]), len(plan["dropped"]), plan["removed"]] == [2, 2, False]
    run("snapshots", "retain", *policy, "--approve", "0" * 64, status=1)
    assert "removed 2 snapshots" in run("snapshots", "retain", *policy, "--approve", plan["digest"])
    assert "pinned: before the upgrade" in run("snapshots", "list")
    run("snapshots", "unpin", snapshot.snapshot_id, "--reason", "done")
    assert "remove 1" in run("snapshots", "retain", *policy, "--dry-run")


def test_blame(snapshot, run):
    assert "config retention.ms = 1000" in run("blame", "orders", "--cluster", "alpha")
    assert "leader = 2" in run("blame", "orders-1", "--cluster", "alpha")


def test_diff_needs_two_sides(snapshot, run):
    run("diff", "newest", status=2)


def test_every_znode_is_in_a_query(snapshot, run, tmp_path):
    folder = ("--engine", "duckdb", "--json", "--folder", str(tmp_path / "history"))
    sql = "SELECT path, data, left_out FROM znodes WHERE path LIKE '/latest%' OR path LIKE '/config/users/a%' ORDER BY path"
    for _ in range(2):  # the second time from what the first one fetched
        assert json.loads(run("query", sql, *folder))["rows"] == [
            ["/config/users/alice", None, "secret"],
            ["/latest_producer_id_block", world.PERSISTENT["/latest_producer_id_block"].decode(), None],
        ]
    assert list((tmp_path / "history").rglob("znodes.parquet"))


def test_kit(snapshot, run, tmp_path):
    assert "--replica-assignment 1:2,2:1" in run("kit", "newest", "--topics", "orders")
    run("kit", "newest", "--topics", "*", "--output", str(tmp_path / "kit"))
    assert {path.name for path in (tmp_path / "kit").iterdir()} >= {"orders.sh", "payments.assignment.json"}


def test_drill(snapshot, run):
    assert "restore drill of alpha: passed" in run("drill", "--cluster", "alpha", "--by-transactions")


def test_a_drill_from_a_file_of_zookeepers_own(snapshot, run, monkeypatch):
    from kafka_maintenance.operations.restore import zookeeper_snapshot

    out = run("drill", "--cluster", "alpha")
    assert "restore drill of alpha: passed" in out
    assert "left out: 3 ephemeral" in out
    assert "left out: 1 not in the snapshot" in out, "the secret"
    right = zookeeper_snapshot._node
    monkeypatch.setattr(zookeeper_snapshot, "_node", lambda data, acl, stat: right(data, acl, stat | {"version": 7}))
    assert "difference: / has version 7, expected 0" in run("drill", "--cluster", "alpha", status=4)


def test_a_refused_restore_ends_with_status_1(snapshot, run, chroot):
    run("restore", "newest", "--zookeeper", chroot, "--whole", status=1)


def test_a_snapshot_that_is_not_there_ends_with_status_2(snapshot, run):
    run("snapshots", "show", "ffff", status=2)
    run("restore", "newest", "--zookeeper", "127.0.0.1:1/x", status=2)


@pytest.mark.spark
def test_query(snapshot, run, tmp_path):
    sql = "SELECT topic, count(*) AS n FROM partitions WHERE date = DATE'2026-03-01' GROUP BY topic ORDER BY topic"
    out = json.loads(run("query", sql, "--json", "--folder", str(tmp_path / "history")))
    assert (out["columns"], out["rows"], out["snapshots"]) == (["topic", "n"], [["orders", 2], ["payments", 1]], 1)
    run("query", "SELECT nothing FROM nowhere", "--folder", str(tmp_path / "history"), status=2)
