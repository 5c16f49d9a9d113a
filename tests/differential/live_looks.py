"""A look at real brokers: the whole tree and what each broker tells its clients, without what is of one run."""

import json
from typing import Any

from controller_core.adapters.brokers.access import PLAIN_ACCESS
from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.model.errors import NoNodeError
from controller_core.model.partitions import BrokerId, ReplicaAssignment
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.wire.messages import METADATA, METADATA_ANSWER
from controller_core.znodes import BROKER_IDS, CONTROLLER, decode_broker
from controller_core.znodes.paths import broker_path

ANSWER_S = 10.0
METADATA_VERSION = 7
REQUESTS = ("/admin/reassign_partitions", "/admin/preferred_replica_election", "/admin/delete_topics/")
NOT_COMPARED = (
    "/zookeeper",
    "/cluster",
    "/controller_epoch",  # who was the controller how often before
    "/config/changes/",  # numbered, and removed by age
    "/feature",  # written by Kafka's controller: docs/fidelity.md, "Named differences"
    "/latest_producer_id_block",
    "/isr_change_notification/",  # numbered; that none is left is looked at
)
ISR_NOTICES = "/isr_change_notification/"
OWN_DATA = ("timestamp", "controller_epoch", "topic_id")  # of a run
DATA_APART = (BROKER_IDS, CONTROLLER)  # ports, hosts: that they are there is compared


def told_by(zookeeper: ZooKeeper, broker: int, topic: str) -> dict[str, Any]:
    """What one broker tells of the cluster and of a topic."""
    path = broker_path(BrokerId(broker))
    registered = decode_broker(zookeeper.get(path)[0], path=path)
    connection = BrokerConnection(registered.broker, PLAIN_ACCESS, timeout_s=ANSWER_S)
    try:
        values = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        found = connection.ask(METADATA, METADATA_ANSWER, METADATA_VERSION, values, timeout_s=ANSWER_S)
    finally:
        connection.close()
    (row_of_topic,) = found["topics"]
    cluster = {"brokers": sorted(row["node_id"] for row in found["brokers"]), "controller": found["controller_id"]}
    rows = {
        row["partition_index"]: {
            "leader": row["leader_id"],
            **(
                {"error": row["error_code"], "epoch": row["leader_epoch"]} if row["leader_id"] >= 0 else {}
            ),  # of none versions tell other ones
            "replicas": list(row["replica_nodes"]),
            "isr": sorted(row["isr_nodes"]),
            "offline": sorted(row["offline_replicas"]),
        }
        for row in row_of_topic["partitions"]
    }
    return {**cluster, "error": row_of_topic["error_code"], **({"partitions": rows} if rows else {})}


def tree_of(zookeeper: ZooKeeper) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        try:
            names = zookeeper.children(path)
            data = zookeeper.get(path)[0]
        except NoNodeError:  # gone since it was listed
            continue
        if path.startswith("/zookeeper"):
            continue
        waiting += [f"{path.rstrip('/')}/{name}" for name in names]
        found[path] = None if path.startswith(DATA_APART) else _plain(data)
    return found


def _plain(data: bytes) -> Any:
    """Znode data without what is of one run; the order of an ISR is the brokers' own business."""
    try:
        content = json.loads(data)
    except ValueError:
        return data.decode("latin-1")
    if not isinstance(content, dict):
        return content
    content = {key: value for key, value in content.items() if key not in OWN_DATA}
    if "isr" in content:
        content["isr"] = sorted(content["isr"])
    return content


def without_epochs(look: Any) -> Any:
    """A look without the epochs of leaders."""
    if isinstance(look, dict):
        return {key: without_epochs(value) for key, value in look.items() if key not in {"leader_epoch", "epoch"}}
    return look


def expected_rows(wanted: str) -> dict[int, dict[str, Any]]:
    """`0 leader=1 isr=1,2; 1 none` as what is expected of partitions; empty for one without a state."""
    if wanted in {"gone", "queued"}:
        return {}
    rows = {}
    for row in wanted.split(";"):
        number, *fields = row.split()
        named = dict(each.split("=") for each in fields if each != "none")
        rows[int(number)] = {
            key: int(value) if key == "leader" else sorted(ids_of(value)) if key == "isr" else ids_of(value)
            for key, value in named.items()
        }
    return rows


def ids_of(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def lists_of(lists: tuple[str, ...]) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(tuple(map(BrokerId, ids_of(ids)))) for number, ids in enumerate(lists)}
