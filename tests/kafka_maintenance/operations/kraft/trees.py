"""Small trees for the tests of a migration to KRaft: a healthy one, and the pieces to damage it with."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

from controller_core.adapters.snapshot.tree_writer import NewZnode, write_tree
from spark_jobs.kraft.tree import Tree, Znode

NOW = datetime(2026, 11, 23, 2, 0, tzinfo=UTC)
MANIFEST = SimpleNamespace(
    cluster="blue", snapshot_id="s1", uri="memory://x/manifest.json", digest="d" * 64, taken_at=NOW
)
TOPIC = "/brokers/topics/orders"
STATE = f"{TOPIC}/partitions/0/state"
GONE = object()
ZK = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
KRAFT = {**ZK, "brokerid": 3000, "kraftControllerEpoch": 1}
MIGRATION = {
    "version": 0,
    "kraft_metadata_offset": 81,
    "kraft_controller_id": 3000,
    "kraft_metadata_epoch": 1,
    "kraft_controller_epoch": 1,
}
BROKER = {"version": 5, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1", "endpoints": ["PLAINTEXT://h:9092"],
          "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "features": {}}  # fmt: skip


def topic(*replicas, topic_id="bXktdG9waWMtb25lLTAwMQ", **fields):
    return {
        "version": 3,
        "topic_id": topic_id,
        "partitions": {"0": list(replicas)},
        "adding_replicas": {},
        "removing_replicas": {},
    } | fields


def state(leader=1, isr=(1, 2)):
    return {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": list(isr)}


def config(**values):
    return {"version": 1, "config": values}


def acl(principal="User:ada", operation="Read", version=1):
    return {
        "version": version,
        "acls": [{"principal": principal, "permissionType": "Allow", "operation": operation, "host": "*"}],
    }


HEALTHY = {
    "/cluster/id": {"version": "1", "id": "SL7T6HJ2QjKdAvdTomaNnQ"},
    "/controller": ZK,
    "/controller_epoch": b"1",
    "/brokers/ids/1": BROKER,
    "/brokers/ids/2": BROKER,
    "/brokers/seqid": None,
    TOPIC: topic(1, 2),
    STATE: state(),
    "/config/topics/orders": config(**{"retention.ms": "1000", "cleanup.policy": "delete"}),
    "/config/brokers/<default>": config(**{"log.cleaner.threads": "2"}),
    "/config/users/ada": config(producer_byte_rate="1000000", request_percentage="12.5"),
    "/config/clients/c%20d": config(consumer_byte_rate="2048"),
    "/config/ips/10.0.0.1": config(connection_creation_rate="5"),
    "/latest_producer_id_block": None,
}  # fmt: skip
EPHEMERAL = ("/brokers/ids/1", "/brokers/ids/2", "/controller")


def encoded(value):
    return value if value is None or isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def tree(changes=None, unread=None):
    znodes = {}
    for path, value in {**HEALTHY, **(changes or {})}.items():
        if value is GONE:
            continue
        data = encoded(value)
        parts = path.split("/")
        for depth in range(2, len(parts)):
            znodes.setdefault("/".join(parts[:depth]), Znode(None))
        version = 3 if path == "/brokers/seqid" and changes and path in changes else 0
        znodes[path] = Znode(None if unread and path in unread else data, version, why_unread=(unread or {}).get(path))
    return Tree(znodes)


def write_healthy(session):
    """Writes the healthy tree; controller and brokers live as long as the session."""
    healthy = tree()
    lasting = [NewZnode(path, healthy.data(path)) for path in sorted(healthy.znodes) if path not in EPHEMERAL]
    write_tree(session.client, lasting)
    for path in EPHEMERAL:
        session.create(path, healthy.data(path), ephemeral=True)
