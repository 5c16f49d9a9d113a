"""Commands on a cluster in a real ZooKeeper: from a plan to its receipt, and what is left of a run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from controller_core.adapters.object_store.open import FolderStore, open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import ControllerZnode, encode_controller
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.ports import free_port
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance.cli.commands import TIMEOUT_S, imbalanced, run
from tests.kafka_maintenance.kafka_world import KafkaWorld, RealServer, three_brokers


@pytest.fixture
def world(server: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[KafkaWorld]:
    """A cluster in a chroot of its own; its controller hangs until `wake`."""
    own = RealServer(f"{server.hosts}/{request.node.name}")
    yield imbalanced(three_brokers(server=own, hangs=True))
    own.close()


@pytest.mark.services
def test_from_plan_to_receipt(capsys, world, tmp_path):
    where = ("--zookeeper", world.server.hosts)
    status, out, _ = run(
        capsys,
        "plan",
        "elections",
        "--cluster",
        "demo",
        "--store",
        str(tmp_path),
        *where,
        "--kafka-version",
        "2.4",
        "--json",
    )
    assert status == 0
    plan = json.loads(out)["plan"]
    apply = (
        "apply",
        plan["uri"],
        "--approve",
        plan["digest"],
        "--approver",
        "ann",
        "--comment",
        "leaders at home",
        *where,
    )
    status, _, err = run(capsys, *apply, "--step-timeout-s", "1")
    assert (status, "run again to go on waiting" in err) == (3, True)
    world.wake()
    status, out, _ = run(capsys, *apply)
    assert (status, world.state("orders").leader) == (0, 1)
    assert out.splitlines()[-1].endswith("-done.json")
    told = [json.loads(path.read_text()) for path in sorted(tmp_path.rglob("*-started.json"))]
    assert {(event["approver"], event["detail"]["comment"]) for event in told} == {("ann", "leaders at home")}
    status, out, _ = run(capsys, *apply, "--json")
    assert (status, json.loads(out)["receipt"]["already_applied"]) == (0, True)


@pytest.mark.services
def test_the_wrong_digest_is_refused(capsys, world, tmp_path):
    plan = plan_elections(open_store(str(tmp_path)), "demo", zookeeper=ClusterAddress(world.server.hosts))
    assert plan is not None
    status, _, err = run(capsys, "apply", plan.uri, "--approve", "0" * 64, "--zookeeper", world.server.hosts)
    assert (status, f"approved digest '{'0' * 64}', stored digest '{plan.digest}'" in err) == (1, True)
    assert world.own.exists(znode.PREFERRED_REPLICA_ELECTION) is None


@pytest.mark.services
def test_kraft_is_refused(capsys, world, tmp_path):
    plan = plan_elections(open_store(str(tmp_path)), "demo", zookeeper=ClusterAddress(world.server.hosts))
    assert plan is not None
    world.own.delete(znode.CONTROLLER, ANY_VERSION)
    controller = ControllerZnode(broker_id=BrokerId(3000), kraft_controller_epoch=1)
    world.own.create(znode.CONTROLLER, encode_controller(controller))
    before = world.own.children("/admin")
    status, _, err = run(capsys, "apply", plan.uri, "--approve", plan.digest, "--zookeeper", world.server.hosts)
    assert (status, "use Kafka's own tools" in err) == (1, True)
    assert world.own.children("/admin") == before
    status, _, err = run(
        capsys, "plan", "elections", "--cluster", "c", "--store", str(tmp_path), "--zookeeper", world.server.hosts
    )
    assert (status, "kraftControllerEpoch 1" in err) == (1, True)


@pytest.mark.services
def test_the_planner_empties_a_broker_or_says_why_not(capsys, world, tmp_path):
    where = ("--cluster", "demo", "--store", str(tmp_path), "--zookeeper", world.server.hosts)
    status, out, _ = run(capsys, "plan", "reassignment", *where, "--drain-broker", "2", "--include", "old")
    assert status == 0
    assert "| 1 | `old-0` | `1, 2` | `1, 3` |" in out or "| 1 | `old-0` | `1, 2` | `3, 1` |" in out
    assert "why: a replica is on a broker that leaves (2)" in out
    status, _, err = run(capsys, "plan", "reassignment", *where, "--drain-broker", "2")
    assert (status, "no reassignment planned" in err) == (1, True)


@pytest.mark.services
def test_the_drain_report(capsys, world):
    status, out, _ = run(capsys, "drain", "--zookeeper", world.server.hosts)
    assert (status, out) == (0, "controller: broker 1\nnotifications: none wait\n")
    world.notify(TopicPartition("orders", 0))
    status, out, _ = run(capsys, "drain", "--zookeeper", world.server.hosts, "--age-min-s", "0", "--json")
    found = json.loads(out)
    assert (found["count"], found["lingering"], found["partitions"]) == (1, True, ["orders-0"])


@pytest.mark.services
@pytest.mark.parametrize(
    ("command", "chroot", "status", "said"),
    [
        pytest.param("drain", "/nowhere", 2, "/nowhere", id="a chroot that does not exist"),
        pytest.param("drain", "", 2, "check host and chroot", id="a chroot without Kafka"),
        pytest.param("snapshot", "/nowhere", 2, "/nowhere", id="a snapshot of no chroot"),
        pytest.param("snapshot", "", 2, "kafka", id="a snapshot of no Kafka tree"),
    ],
)
def test_the_wrong_chroot_is_bad_input(capsys, server, tmp_path, command, chroot, status, said):
    where = ("--cluster", "c", "--store", str(tmp_path)) if command == "snapshot" else ()
    found = run(capsys, command, "--zookeeper", f"{server.hosts}{chroot}", *where)
    assert (found[0], said in found[2].lower()) == (status, True), found


@pytest.mark.services
def test_a_zookeeper_that_is_down_is_the_outside(capsys, monkeypatch, stored):
    from kafka_maintenance.operations.cluster import observe as observing

    monkeypatch.setattr(observing, "ZOOKEEPER_TIMEOUT_S", 0.5)
    hosts = f"127.0.0.1:{free_port()}"
    status, _, err = run(capsys, "apply", stored.uri, "--approve", stored.digest, "--zookeeper", hosts)
    assert (status, "no ZooKeeper server answered" in err) == (3, True)


@pytest.mark.services
def test_a_run_that_was_killed_is_finished_by_the_next(capsys, world, tmp_path):
    store = FolderStore(tmp_path)
    plan = plan_elections(store, "demo", zookeeper=ClusterAddress(world.server.hosts))
    assert plan is not None
    apply = ("apply", plan.uri, "--approve", plan.digest, "--zookeeper", world.server.hosts)
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_maintenance", *apply], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        wait_until(
            lambda: any(event.event == "requested" for event in read_events(store, "demo", plan.digest)),
            what="the request is made",
            timeout_s=TIMEOUT_S,
        )
        second = plan_deletions(
            store, "demo", topics=["old"], zookeeper=ClusterAddress(world.server.hosts), kafka_version="2.4"
        )
        assert second is not None
        arguments = ("apply", second.uri, "--approve", second.digest, "--zookeeper", world.server.hosts)
        status, _, err = run(capsys, *arguments)
        assert (status, "cluster is busy" in err) == (1, True)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    world.wake()
    assert run(capsys, *apply)[0] == 0
    assert [str(event.event) for event in read_events(store, "demo", plan.digest)] == [
        "started", "intended", "requested", "started", "verified", "done",
    ]  # fmt: skip
    show = ("executions", "show", plan.digest, "--cluster", "demo", "--store", str(tmp_path))
    changed = json.loads(run(capsys, "--json", *show)[1])["state_changes"]
    assert changed
    assert all("state changed from (Leader:" in line for line in changed)
    assert run(capsys, *show)[1].splitlines()[-len(changed) :] == changed


@pytest.mark.services
def test_a_record_is_listed_shown_and_stopped_and_what_is_left_is_removed(capsys, world, tmp_path):
    plan = plan_elections(open_store(str(tmp_path)), "demo", zookeeper=ClusterAddress(world.server.hosts))
    assert plan is not None
    where = ("--cluster", "demo", "--store", str(tmp_path))
    assert run(capsys, "stop", plan.digest, "--reason", "peak", *where)[0] == 2  # it was not begun
    apply_it = ("apply", plan.uri, "--approve", plan.digest, "--zookeeper", world.server.hosts, "--step-timeout-s", "1")
    assert run(capsys, *apply_it)[0] == 3  # nobody obeys
    assert plan.digest in run(capsys, "executions", "list", *where)[1]
    shown = run(capsys, "executions", "show", plan.digest, *where)[1]
    assert "unfinished" in shown
    assert run(capsys, "executions", "show", plan.digest[:12], *where)[1] == shown
    for other, found in (
        ("", "found an empty one"),
        *((each, "found 0 that begin so") for each in ("x", plan.digest + "0")),
    ):
        status, _, err = run(capsys, "executions", "show", other, *where)
        assert (status, found in err) == (2, True)
    record = json.loads(run(capsys, "--json", "executions", "show", plan.digest, *where)[1])
    assert [each["event"] for each in record["events"]] == ["started", "intended", "requested", "unfinished"]
    assert [line.split()[1] for line in record["timeline"]] == [each["event"] for each in record["events"]]
    compare = ("verify", plan.uri, "--zookeeper", world.server.hosts)
    status, out, _ = run(capsys, *compare)
    assert (status, out.splitlines()[:-1]) == (4, record["timeline"])
    assert "predictions do not hold" in out.splitlines()[-1]
    assert json.loads(run(capsys, "--json", *compare)[1])["events"] == record["events"]
    assert "asked for; the last of the record is" in run(capsys, "stop", plan.digest, "--reason", "peak", *where)[1]
    world.own.create("/admin/kafka_maintenance_execution", b"{}")
    status, out, err = run(capsys, "unlock", "--zookeeper", world.server.hosts, *where)
    assert (status, "/admin/kafka_maintenance_execution  version 0  {}" in out) == (1, True)
    approve = ("--approve", err.split()[-1])
    assert run(capsys, "unlock", "--zookeeper", world.server.hosts, *where, *approve)[0] == 0
    assert world.own.exists("/admin/kafka_maintenance_execution") is None
    nothing = run(capsys, "unlock", "--zookeeper", world.server.hosts, *where)
    assert nothing == (0, "nothing of ours is there\n", "")
