"""What our reader reads from a server's files is what the server showed; what we write, the server loads."""

import random

import pytest

from controller_core.adapters.zookeeper_files.data_directory import DataDirectory
from kafka_maintenance.servers import ZooKeeperServer
from tests.zookeeper_history import busy_writer, differences, write_history

pytestmark = pytest.mark.services

STEPS = 1200
EXTENDED = {"extendedTypesEnabled": "true", "snapCount": "200"}


def compare(folder, seen, seed=1):
    """Each moment from files that are opened anew, in another order than they were written in."""
    random.Random(seed).shuffle(seen)
    for each in seen:
        moment = DataDirectory(folder).moment(each.zxid)
        assert (moment.zxid, moment.doubt) == (each.zxid, None)
        assert differences(moment.tree, each) == []
    directory = DataDirectory(folder)
    for each in sorted(seen, key=lambda one: one.zxid):  # forward over one tree, as `--every` goes
        assert differences(directory.moment(each.zxid).tree, each) == []
    assert directory.notes == []


def test_fifty_random_zxids_are_as_the_server_showed_them():
    with ZooKeeperServer(config=EXTENDED) as server:
        seen = write_history(server, steps=STEPS, looks=50)
        compare(server.workspace.folder / "zookeeper", seen)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"snapshot.compression.method": "gz"}, id="gzip"),
        pytest.param({"snapshot.compression.method": "snappy"}, id="snappy"),
        pytest.param({"digest.enabled": "false"}, id="no digests, as before 3.6"),
        pytest.param({"closeSessionTxn.enabled": "false"}, id="closed sessions without their paths"),
    ],
)
def test_other_files(config):
    with ZooKeeperServer(config=EXTENDED | config) as server:
        seen = write_history(server, steps=400, looks=4, seed=7)
        folder = server.workspace.folder / "zookeeper"
        suffix = config.get("snapshot.compression.method")
        assert all(path.suffix == f".{suffix}" for path in folder.glob("version-2/snapshot.*") if suffix)
        compare(folder, seen)


@pytest.mark.parametrize("digests", ["true", "false"])
def test_snapshot_files_written_under_load_lead_to_exact_trees(digests):
    with ZooKeeperServer(config={"snapCount": "400", "digest.enabled": digests}) as server:
        with busy_writer(server.hosts):
            seen = write_history(server, steps=300, looks=8, features=False)
        folder = server.workspace.folder / "zookeeper"
        assert len(list(folder.glob("version-2/snapshot.*"))) > 5
        compare(folder, seen)


@pytest.mark.kafka
@pytest.mark.parametrize(("kafka", "version"), [("1.1", "3.4"), ("2.4", "3.5")])
def test_old_servers(monkeypatch, kafka, version):
    """Real old servers: the jars of old brokers hold one."""
    from kafka_maintenance.servers import zookeeper as local
    from tests.kafka_versions import class_path_of

    monkeypatch.setattr(local, "class_path", lambda: class_path_of(kafka))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dzookeeper.jmx.log4j.disable=true -Dzookeeper.snapCount=100")
    with ZooKeeperServer(config={"snapCount": "100"}) as server:
        monkeypatch.undo()
        assert version in server.command("srvr")
        seen = write_history(server, steps=300, looks=5, features=False)
        compare(server.workspace.folder / "zookeeper", seen)
