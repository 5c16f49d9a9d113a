"""Real brokers say which cluster they are, when nothing in ZooKeeper does any more."""

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import KafkaCluster
from tests.kafka_maintenance import snapshot_world as world

pytestmark = [pytest.mark.services, pytest.mark.kafka]


def test_the_brokers_own_answer_is_an_identity(tmp_path, capsys):
    store = FolderStore(tmp_path / "store")
    with KafkaCluster("3.9", brokers=2, mode="shared_jvm") as cluster:
        address = ClusterAddress(cluster.zookeeper_connect)
        with cluster.session() as session:
            for path in ("/config/clients/slow", "/config/clients/other"):
                session.create(path, world.config(producer_byte_rate="1"))
            take_snapshot(address=address, cluster="blue", store=store, run_id="r", now=world.NOON)
            # All that is older than the snapshot is gone, and made again by somebody: no znode has its creation.
            session.client.delete("/cluster", recursive=True)
            session.client.delete("/config/clients", recursive=True)
            session.client.delete("/admin", recursive=True)

        def restore(*arguments, zookeeper=cluster.zookeeper_connect, status=1):  # shown, and not approved
            capsys.readouterr()
            line = ["restore", "newest", "--store", store.uri, "--zookeeper", zookeeper, "--path", "/config/clients"]
            found = main([*line, *arguments])
            printed = capsys.readouterr()
            assert found == status, printed
            return printed.out + printed.err

        told = restore("--bootstrap-servers", cluster.bootstrap_servers)
        assert f"BY THE BROKERS: those at {cluster.bootstrap_servers} are of" in told
        assert "the target's /cluster/id holds none" in told
        digest = next(word for word in told.split() if len(word) == 64)
        restore("--approve", digest, status=0)
        with cluster.session() as session:
            assert session.get("/config/clients/slow")[0] == world.config(producer_byte_rate="1")
        # Another ZooKeeper, of other brokers: what these say is no answer for it.
        elsewhere = f"{cluster.zookeeper_connect.partition('/')[0]}/elsewhere"
        with world.session(elsewhere) as session:
            session.create("/brokers/topics", b"", make_parents=True)
            session.create("/brokers/ids/7", world.broker(7), make_parents=True, ephemeral=True)
            refused = restore("--bootstrap-servers", cluster.bootstrap_servers, zookeeper=elsewhere, status=1)
            assert "found [1, 2], and [7] registered; ask the brokers of this ZooKeeper" in refused
            nobody = restore("--bootstrap-servers", "127.0.0.1:1", zookeeper=elsewhere, status=3)
            assert "Kafka cluster id asked of the brokers at 127.0.0.1:1" in nobody
