"""Real brokers of the local stack: crashes, pauses, late comers, both modes."""

from pathlib import Path

import psutil
import pytest

from controller_core.znodes.partitions import decode_state
from controller_core.znodes.paths import state_path
from kafka_maintenance.demo.traffic import create_topic, message_counts, produce
from kafka_maintenance.servers import KafkaCluster, Workspace, ZooKeeperServer
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.ports import listens
from kafka_maintenance.servers.process import wait_until

pytestmark = pytest.mark.kafka


def leader(cluster: KafkaCluster, partition) -> int:
    with cluster.session() as session:
        data, stat = session.get(state_path(partition))
        return decode_state(data, path="state", version=stat.version).leader


def mapped(pid: int) -> str:
    """The files that a process has mapped into its memory."""
    return Path(f"/proc/{pid}/maps").read_text()


def test_a_killed_broker_comes_back_and_nothing_stays(tmp_path):
    with KafkaCluster("3.9", racks=("a", "b"), inter_broker_protocol_version="2.6") as cluster:
        (partition,) = create_topic(cluster, "orders", {0: (2, 1)})
        assert produce(cluster, "orders", 0, count=10) == 10
        cluster[2].kill(forget=True)
        wait_until(lambda: leader(cluster, partition) == 1, what="broker 1 leads", timeout_s=30)
        assert cluster[2].start().is_registered
        assert cluster.add_broker().rack == "b"
        assert message_counts(cluster, "orders") == {0: 10}
        pids = [broker.pid for broker in cluster.brokers.values()]
        cluster[1].pause()
        folder, port = cluster.workspace.folder, cluster[3].port
    assert (folder.exists(), listens(port), [pid for pid in pids if psutil.pid_exists(pid)]) == (False, False, [])


@pytest.mark.parametrize("version", ["3.9", "0.10.2"])
def test_data_lie_in_the_workspace_whatever_its_name(tmp_path, version):
    folder = tmp_path / "Jürgen, 100%25 \\u0041"
    with Workspace(folder) as workspace, KafkaCluster(version, brokers=1, workspace=workspace) as cluster:
        assert cluster[1].is_registered
        assert (folder / "kafka" / "data-1").is_dir()
        assert (folder / "kafka-zookeeper" / "version-2").is_dir()
        assert list(tmp_path.iterdir()) == [folder]
        expected = {"kafka", "kafka-zookeeper", "logs", "owner.json", "processes.json"}
        assert {path.name for path in folder.iterdir()} == expected


def test_brokers_in_one_jvm_of_an_old_version():
    with KafkaCluster("1.1", mode="shared_jvm", brokers=2, racks=("a", "b"), chroot="/old") as cluster:
        create_topic(cluster, "orders", {0: (2, 1), 1: (1, 2)})
        assert produce(cluster, "orders", 1, count=3) == 3
        cluster[2].terminate()
        assert (cluster[2].is_running, cluster[2].is_registered) == (False, False)
        assert cluster[2].start().is_registered
        assert "/1.1.1-" in mapped(cluster[1].pid), "its classes come from the archive"
        assert "/kafka-maintenance/zookeeper-" in mapped(cluster.zookeeper.child.pid)
        with pytest.raises(LocalStackError, match=r"share one JVM.*mode='processes'"):
            cluster[1].kill()


def test_brokers_log_in_to_a_secured_zookeeper():
    with (
        ZooKeeperServer(users={"kafka": "geheim"}) as zookeeper,
        KafkaCluster("3.9", zookeeper, brokers=1, mode="shared_jvm", login=("kafka", "geheim")) as cluster,
    ):
        assert cluster.controller_id() == 1
