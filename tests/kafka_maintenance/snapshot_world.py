"""A small Kafka tree in a real ZooKeeper, and what the tests of snapshots do with it."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

from controller_core.adapters.snapshot.format import raw_to_parquet
from controller_core.adapters.snapshot.manifest import (
    StoredObject,
    manifest_bytes,
    new_manifest,
    run_key,
    snapshot_prefix,
)
from controller_core.adapters.snapshot.tables import RAW
from controller_core.adapters.zookeeper.session import KazooZooKeeper, connect
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.apply.execution import Execution, Road, begin_execution
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLUSTER_ID = "vPeOCWypqUOSepEvx0cbog"
STATE = '{{"controller_epoch":3,"leader":{leader},"version":1,"leader_epoch":{epoch},"isr":[{isr}]}}'


def state(leader=1, epoch=0, isr=(1, 2)):
    return STATE.format(leader=leader, epoch=epoch, isr=",".join(map(str, isr))).encode()


def broker(number, rack="r1"):
    return json.dumps(
        {
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://h{number}:9092"],
            "rack": rack,
            "jmx_port": -1,
            "port": 9092,
            "host": f"h{number}",
            "version": 5,
            "timestamp": "1700000000000",
        }
    ).encode()


def config(**settings):
    """Data of a config; names of quotas have underscores, all others dots."""
    named = {key if key.endswith("_byte_rate") else key.replace("_", "."): value for key, value in settings.items()}
    return json.dumps({"version": 1, "config": named}).encode()


PERSISTENT = {
    "/brokers/ids": b"",
    "/brokers/seqid": b"",
    "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}',
    "/brokers/topics/orders/partitions": b"",
    "/brokers/topics/orders/partitions/0": b"",
    "/brokers/topics/orders/partitions/0/state": state(1),
    "/brokers/topics/orders/partitions/1": b"",
    "/brokers/topics/orders/partitions/1/state": state(2, 4, (2, 1)),
    "/brokers/topics/payments": (
        b'{"partitions":{"0":[1,2]},"topic_id":"3tRvjlrmRXmsYOMp9Fg0AA","adding_replicas":{},"removing_replicas":{},"version":3}'
    ),
    "/brokers/topics/payments/partitions": b"",
    "/brokers/topics/payments/partitions/0": b"",
    "/brokers/topics/payments/partitions/0/state": state(2, 7, (2,)),
    "/controller_epoch": b"3",
    "/cluster/id": json.dumps({"version": "1", "id": CLUSTER_ID}).encode(),
    "/admin/delete_topics": b"",
    "/isr_change_notification": b"",
    "/log_dir_event_notification": b"",
    "/config/changes": b"",
    "/config/topics/orders": config(retention_ms="1000", cleanup_policy="compact"),
    "/config/topics/payments": config(),
    "/config/brokers": b"",
    "/config/clients/slow": config(producer_byte_rate="1024"),
    "/config/users/alice": json.dumps(
        {"version": 1, "config": {"SCRAM-SHA-256": "salt=abc,stored_key=s3cr3t", "producer_byte_rate": "2048"}}
    ).encode(),
    "/config/users/bob": config(consumer_byte_rate="4096"),
    "/latest_producer_id_block": b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
    "/consumers": b"",
}


def fill(zookeeper: KazooZooKeeper, *, brokers=(1, 2), controller=1) -> None:
    """The tree; ephemeral znodes live as long as the session."""
    for path, data in PERSISTENT.items():
        zookeeper.create(path, data, make_parents=True)
    for number in brokers:
        zookeeper.create(f"/brokers/ids/{number}", broker(number), ephemeral=True)
    if controller is not None:
        data = b'{"version":2,"brokerid":%d,"timestamp":"1700000000000","kraftControllerEpoch":-1}' % controller
        zookeeper.create("/controller", data, ephemeral=True)


def session(hosts: str, **kwargs):
    """A session that makes its chroot."""
    return connect(hosts, create_chroot=True, **kwargs)


OPEN = (Acl(31, "world", "anyone"),)


def stored_day(store, now, days_ago, *, cluster="alpha", consistent=True, hour=1):
    """A snapshot of that date, with one object."""
    taken_at = (now - timedelta(days=days_ago)).replace(hour=hour)
    snapshot_id = f"{10_000 - days_ago:016x}-{cluster}-{days_ago}-{hour}"
    prefix = snapshot_prefix(cluster, taken_at, snapshot_id)
    raw = raw_to_parquet(RAW.empty_table())
    store.put(f"{prefix}/raw.parquet", raw)
    manifest = new_manifest(
        uri=store.uri_of(f"{prefix}/manifest.json"),
        prefix=prefix,
        cluster=cluster,
        kafka_cluster_id="id",
        date=taken_at.date().isoformat(),
        snapshot_id=snapshot_id,
        run_id=snapshot_id,
        taken_at=taken_at,
        zxid=10_000 - days_ago,
        consistent=consistent,
        reason=None if consistent else "busy",
        unresolved=0,
        rounds=1,
        method="cut",
        zookeeper_version="3.9.5",
        chroot="",
        secured=False,
        objects=(StoredObject(f"{prefix}/raw.parquet", len(raw), hashlib.sha256(raw).hexdigest(), 0),),
        counts={},
        redacted=(),
        key_id=None,
        unreadable=(),
        code_version="0",
    )
    store.put(run_key(cluster, manifest.run_id), manifest_bytes(manifest))
    store.put(manifest.key, manifest_bytes(manifest))
    return manifest


def waiting_plan(session, store, road=Road.NOT_ASKED):
    """The digest of a plan of ours on `alpha` whose second step waits, or, by another road, was asked for."""
    digest, run = "d" * 64, "reassign_partitions.r1"
    record = ReceiptLog(store, cluster="alpha", digest=digest, run=run, approver="olivia", now=NOON)
    record.append(EventKind.STARTED, kind="reassign_partitions", steps=2)
    session.multi([begin_execution(Execution(digest, 1, run, "olivia", NOON.isoformat(), road))])
    return digest
