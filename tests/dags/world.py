"""A cluster in memory with a controller that does as it is asked: enough of Kafka for a gated run."""

import json
import threading
from contextlib import suppress

from controller_core.model.errors import NoNodeError
from controller_core.ports.zookeeper import WatchEventKind
from controller_core.runtime.simulated.zookeeper import Applied, MemoryServer, MemoryZooKeeper

CLUSTER = "alpha"
BROKERS = (1, 2, 3)
ELECTION = "/admin/preferred_replica_election"


class World:
    """Three brokers and the topic `orders`, whose partition 0 is led by broker 2 instead of broker 1.

    Attributes:
        server: the tree.
        zookeeper: a session for whoever looks at it.
        requests: data of the election requests that were made, as text.
        works: the controller does nothing while it is cleared.
    """

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.zookeeper = self.server.session()
        self.requests: list[str] = []
        self.works = threading.Event()
        self.works.set()
        self._brokers = self.server.session()
        self._controller: MemoryZooKeeper = self.server.session()
        self._write("/cluster/id", {"version": "1", "id": "memory-cluster"})
        self._write("/controller_epoch", 7)
        self._controller.create("/controller", _json({"version": 1, "brokerid": 3, "timestamp": "1"}), ephemeral=True)
        for path in ("/admin/delete_topics", "/isr_change_notification", "/config/topics", "/brokers/ids"):
            self.zookeeper.create(path, make_parents=True)
        for broker in BROKERS:
            self._brokers.create(f"/brokers/ids/{broker}", _json(registration(broker)), ephemeral=True)
        assignment = {"0": [1, 2, 3], "1": [2, 3, 1]}
        topic = {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": assignment}
        self._write("/brokers/topics/orders", topic | {"adding_replicas": {}, "removing_replicas": {}})
        self.lead(0, 2)
        self.lead(1, 2)
        self.server.listen(self._hear)

    def lead(self, partition: int, leader: int) -> None:
        """Makes a broker the leader of a partition of `orders`, with all replicas in sync."""
        path = f"/brokers/topics/orders/partitions/{partition}/state"
        state = {"controller_epoch": 7, "leader": leader, "version": 1, "leader_epoch": 4, "isr": [1, 2, 3]}
        stat = self.zookeeper.exists(path)
        if stat is None:
            self._write(path, state)
        else:
            self.zookeeper.set(path, _json(state | {"leader_epoch": 5}), stat.version)

    def leader(self, partition: int) -> int:
        """Who leads a partition of `orders`."""
        data, _ = self.zookeeper.get(f"/brokers/topics/orders/partitions/{partition}/state")
        return int(json.loads(data)["leader"])

    def _write(self, path: str, document: object) -> None:
        self.zookeeper.create(path, _json(document), make_parents=True)

    def _hear(self, applied: Applied) -> None:
        if any(event.path == ELECTION and event.kind is WatchEventKind.CREATED for event in applied.changes):
            threading.Thread(target=self._elect).start()

    def _elect(self) -> None:
        self.works.wait()
        data, stat = self.zookeeper.get(ELECTION)
        self.requests.append(data.decode())
        for row in json.loads(data)["partitions"]:
            self.lead(row["partition"], {0: 1, 1: 2}[row["partition"]])
        with suppress(NoNodeError):  # somebody else was quicker
            self.zookeeper.delete(ELECTION, stat.version)


def registration(broker: int) -> dict[str, object]:
    """What a broker of Kafka 3.9 writes about itself."""
    return {
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://broker-{broker}:9092"],
        "jmx_port": -1,
        "features": {},
        "host": f"broker-{broker}",
        "timestamp": "1",
        "port": 9092,
        "rack": f"rack-{broker}",
        "version": 5,
    }


def _json(document: object) -> bytes:
    return json.dumps(document).encode()
