"""The laboratory as a command: it becomes the controller of an empty tree on loopback, ends when it is told to, and refuses everything else."""

import json
import signal
import subprocess
import sys

import pytest

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.laboratory import LaboratoryController
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.laboratory.run import BANNER, DIRECTORIES, MARKER, require_loopback_hosts
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.workspace import Workspace
from tests.differential.under_the_core import config_of
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.act_as_controller.world import Relay


def refusal_of(hosts):
    """What is said of an address that is refused; None: it is taken."""
    try:
        require_loopback_hosts(ClusterAddress(hosts))
    except RefusedError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("hosts", ["127.0.0.1:2181", "localhost:2181/x", "[::1]:2181", "127.0.0.1:1,127.0.0.2:1/kafka"])
def test_loopback_is_taken(hosts):
    assert refusal_of(hosts) is None


@pytest.mark.parametrize(
    ("hosts", "strange"),
    [
        ("zk1:2181/kafka", "zk1"),
        ("10.0.0.1:2181", "10.0.0.1"),
        ("127.0.0.1:2181,zk2:2181", "zk2"),
        ("[2001:db8::1]:2181", "2001:db8::1"),
    ],
)
def test_any_other_address_is_refused(hosts, strange, capsys):
    assert f"expected a ZooKeeper on loopback, found {strange};" in refusal_of(hosts)
    assert main(["lab", "--zookeeper", hosts]) == 1
    assert "no production cluster is ever run by it" in capsys.readouterr().err


@pytest.mark.services
def test_a_tree_that_is_somebodys_is_refused(kafka, chroot, capsys):
    assert main(["lab", "--zookeeper", chroot]) == 1
    assert "expected an empty tree, or one that a laboratory began" in capsys.readouterr().err
    assert kafka.exists(MARKER) is None


@pytest.fixture
def lab(chroot):
    """A session on an empty chroot, and what starts the command on it."""
    command = [sys.executable, "-m", "kafka_maintenance", "lab", "--zookeeper", chroot]
    started = []

    def start():
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    with world.session(chroot) as session:
        yield session, start
        for process in started:
            process.kill()
            process.communicate()


def await_controller(session, epoch):
    def rules():
        return session.exists("/controller") is not None and session.get("/controller_epoch")[0] == epoch

    wait_until(rules, what="the laboratory is the active controller", timeout_s=60)


@pytest.mark.services
def test_it_becomes_the_controller_until_it_is_told_to_end(lab):
    session, start = lab
    for epoch in (b"1", b"2"):  # the second one finds the tree of the first
        process = start()
        await_controller(session, epoch)
        assert json.loads(session.get("/controller")[0])["brokerid"] == 1000
        assert all(session.exists(path) for path in (MARKER, *DIRECTORIES))
        process.send_signal(signal.SIGTERM)
        said, told = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "ended: SIGTERM; 0 state changes\n")
        assert told.startswith(BANNER)
        wait_until(lambda: session.exists("/controller") is None, what="the controller is gone", timeout_s=30)


@pytest.mark.services
def test_an_id_that_somebody_has_is_refused(lab, chroot, capsys):
    session, _ = lab
    session.create(MARKER)
    session.create("/brokers/ids/1000", world.broker(1000), ephemeral=True, make_parents=True)
    assert main(["lab", "--zookeeper", chroot]) == 1
    assert "expected nobody at /brokers/ids/1000, found a broker" in capsys.readouterr().err
    assert session.exists("/controller") is None


@pytest.mark.services
def test_a_broker_elsewhere_ends_it(lab):
    session, start = lab
    process = start()
    await_controller(session, b"1")
    session.create("/brokers/ids/1", world.broker(1), ephemeral=True)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "broker 1 not commanded: the laboratory expects loopback addresses, found ['h1']" in told


@pytest.mark.services
@pytest.mark.parametrize("session_s", [20.0, 2.0], ids=["the session lives", "the session ends"])
def test_a_controller_that_was_cut_off_hears_what_happened_meanwhile(session_s):
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace) as server,
        connect(server.hosts) as other,
    ):
        for path in DIRECTORIES:
            other.create(path, make_parents=True)
        relay = Relay("127.0.0.1", server.port)
        with (
            connect(f"127.0.0.1:{relay.port}", session_timeout_s=session_s) as session,
            LaboratoryController(session, dialect_for("3.9"), config_of(BrokerId(7))) as ours,
        ):
            wait_until(lambda: ours.is_active, what="it is the active controller", timeout_s=60)
            relay.cut()
            if session_s == 20.0:
                other.delete("/controller", ANY_VERSION)
            else:
                wait_until(lambda: not other.exists("/brokers/ids/7"), what="its session is over", timeout_s=60)
            relay.restore()
            await_controller(other, b"2")
            wait_until(lambda: other.exists("/brokers/ids/7"), what="it is registered", timeout_s=60)
            wait_until(lambda: ours.is_active, what="it is the active controller again", timeout_s=60)
            for _ in range(2):  # and it hears what happens from now on
                epoch = int(other.get("/controller_epoch")[0])
                other.delete("/controller", ANY_VERSION)
                await_controller(other, b"%d" % (epoch + 1))
        relay.close()
        assert ours.failure is None
