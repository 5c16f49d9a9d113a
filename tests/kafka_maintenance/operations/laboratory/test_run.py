"""The laboratory as a command: it becomes the controller of an empty tree on loopback, ends when it is told to, and refuses everything else."""

import json
import signal
import subprocess
import sys

import pytest

from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.laboratory.run import BANNER, DIRECTORIES, MARKER, require_loopback_hosts
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance import snapshot_world as world


@pytest.mark.parametrize("hosts", ["127.0.0.1:2181", "localhost:2181/x", "[::1]:2181", "127.0.0.1:1,127.0.0.2:1/kafka"])
def test_loopback_is_taken(hosts):
    require_loopback_hosts(ClusterAddress(hosts))


@pytest.mark.parametrize("hosts", ["zk1:2181/kafka", "10.0.0.1:2181", "127.0.0.1:2181,zk2:2181", "[2001:db8::1]:2181"])
def test_any_other_address_is_refused(hosts, capsys):
    with pytest.raises(RefusedError, match="expected a ZooKeeper on loopback"):
        require_loopback_hosts(ClusterAddress(hosts))
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
def test_a_broker_elsewhere_ends_it(lab):
    session, start = lab
    process = start()
    await_controller(session, b"1")
    session.create("/brokers/ids/1", world.broker(1), ephemeral=True)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "broker 1 not commanded: the laboratory expects loopback addresses, found ['h1']" in told
