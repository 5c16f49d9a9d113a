"""The accidents of docs/accidents.md under real brokers: each made on a running cluster and repaired by its documented command.

    python -m tests.accident_runs [--version 3.9] [--only 1 --only 2]

Before each accident a record is written to every partition. Afterwards every partition has its leader and whole ISR, every record
ever acknowledged is read again, and every persistent znode has its data of before, but for epochs, states and notices. The row
in docs says whether brokers are stopped first; where they may run, they do.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.cli.main import main as command
from kafka_maintenance.cli.zookeeper_arguments import PASSWORD_VARIABLE
from kafka_maintenance.demo.traffic import create_topic, partition_states
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.restore.accidents import ACCIDENTS, DOCUMENT, OWNER, ROWS, RULES, SECURED

STOPPED = dict(re.findall(r"^\| \d+ \| ([^|]+) \| ([^|]+) \|", DOCUMENT, re.MULTILINE))
KEY = base64.b64encode(b"k" * 32).decode()
CREDENTIAL = f"salt=c2FsdA==,stored_key={KEY},server_key={KEY},iterations=4096"
TOPICS = {"orders": {0: (1, 2), 1: (2, 1)}, "payments": {0: (1, 2)}}
OF_BROKERS = re.compile(
    r"/(controller_epoch|latest_producer_id_block|brokers/seqid|brokers/topics/.*/state|config/changes/.*|kafka-acl-changes/.*|"
    r"isr_change_notification/.*|log_dir_event_notification/.*)$"
)
"""What brokers write themselves."""
OF_THE_SERVERS = frozenset({"an ensemble lost its disks", "brokers started on an empty ensemble"})
"""Accidents that no broker lives through, so that they are stopped before."""
OWNED = [make_digest_acl(OWNER.username, OWNER.password, all=True), *READ_ACL_UNSAFE]


def fill(cluster):
    """Topics, and beside them what accidents strike; the partitions."""
    partitions = [each for topic, assignment in TOPICS.items() for each in create_topic(cluster, topic, assignment)]
    with cluster.session() as session:
        session.set("/config/topics/orders", world.config(retention_ms="604800000"), -1)
        for path, data in {
            "/config/users/alice": json.dumps({"version": 1, "config": {"SCRAM-SHA-256": CREDENTIAL}}).encode(),
            "/kafka-acl/Topic/orders": RULES,
            "/config_before": b"kept",
        }.items():
            session.create(path, data, make_parents=True)
        if not session.exists("/latest_producer_id_block"):
            session.create("/latest_producer_id_block", world.PERSISTENT["/latest_producer_id_block"])
    return partitions


def persistent(cluster, auth):
    """Path → (data, ACL) of what brokers do not write themselves."""
    with connect(cluster.zookeeper_connect, auth=auth) as session:
        cut = read_cut(session.client)
    return {
        path: (znode.data or b"", cut.acls[path])
        for path, znode in cut.znodes.items()
        if not znode.decoded_stat.ephemeral_owner and not OF_BROKERS.search(path)
    }


def produced(cluster, partitions, name):
    """One acknowledged record a partition; their values."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    try:
        for each in partitions:
            producer.send(each.topic, f"{name} {each}".encode(), partition=each.partition).get(timeout=60)
    finally:
        producer.close()
    return [f"{name} {each}" for each in partitions]


def consumed(cluster, partitions):
    """Every record of the partitions."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=5_000
    )
    try:
        consumer.assign([ClientPartition(each.topic, each.partition) for each in partitions])
        return sorted(record.value.decode() for record in consumer)
    finally:
        consumer.close()


def until_in_sync(cluster, partitions):
    def in_sync():
        with cluster.session() as session:
            states = partition_states(session, partitions).values()
        return all(state is not None and state.leader > 0 and len(state.isr) == 2 for state in states)

    wait_until(in_sync, what="every partition has a leader and its whole ISR", timeout_s=120)


def until_noticed(cluster):
    """The controller has done what an accident made it do: it answers this question after all events that ZooKeeper told it of before."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.list_partition_reassignments()
    finally:
        admin.close()


def run(line, status, wanted="()"):
    """What of that which a command line printed is wanted."""
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        found = command(shlex.split(line)[1:])
    match = re.search(wanted, printed.getvalue(), re.MULTILINE)
    if found != status or match is None:
        sys.exit(f"{line}: exit status {found}, expected {status} and {wanted}\n{printed.getvalue()}{said.getvalue()}")
    return match[1]


def stopped(cluster):
    cluster.terminate()
    wait_until(
        lambda: not any("/brokers/ids/" in path for path in cluster.ephemerals()), what="no broker", timeout_s=60
    )


def repaired(accident, cluster, store, key_file, number):
    """Seconds that the documented command took, shown and approved."""
    snapshot = take_snapshot(
        address=ClusterAddress(cluster.zookeeper_connect, auth=OWNER if accident == SECURED else None),
        cluster="blue",
        store=store,
        run_id=f"r{number}",
        now=world.NOON,
        key_file=key_file,
    ).manifest
    if accident in OF_THE_SERVERS:
        stopped(cluster)
    with connect(cluster.zookeeper_connect, auth=OWNER if accident == SECURED else None) as session:
        ACCIDENTS[accident](session)
    if accident not in OF_THE_SERVERS:
        until_noticed(cluster)
    if STOPPED[accident] == "stopped":
        stopped(cluster)
    line = ROWS[accident].replace("SNAPSHOT", snapshot.snapshot_id).replace("ZOOKEEPER", cluster.zookeeper_connect)
    line = line.replace("KEY", str(key_file)).replace("CLUSTER_ID", snapshot.kafka_cluster_id) + f" --store {store.uri}"
    began = time.perf_counter()
    digest = run(line, 1, wanted=r"^digest (\S+)$")
    run(f"{line} --approve {digest} --approver ada", 0)
    took_s = time.perf_counter() - began
    if STOPPED[accident] == "stopped":
        for broker in cluster.brokers.values():
            broker.launch()
        for broker in cluster.brokers.values():
            broker.wait_registered()
    return took_s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--version", default="3.9", help="2.4 or newer: an older controller cannot be asked whether it has noticed"
    )
    parser.add_argument("--only", type=int, action="append", help="number of a row; may be repeated (default: all)")
    given = parser.parse_args()
    os.environ[PASSWORD_VARIABLE] = OWNER.password
    print(
        f"Kafka {given.version}, 2 brokers\n\n| # | accident | brokers | command, s | all, s |\n| --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(given.version, brokers=2, chroot="/k") as cluster:
        store, key_file, records = FolderStore(Path(folder) / "store"), Path(folder) / "snapshot.key", []
        key_file.write_text(KEY, encoding="utf-8")
        partitions = fill(cluster)
        for number, accident in enumerate(ACCIDENTS, start=1):
            if given.only and number not in given.only:
                continue
            records += produced(cluster, partitions, f"record {number}")
            auth = OWNER if accident == SECURED else None
            if accident == SECURED:
                with cluster.session() as session:
                    session.client.set_acls("/config_before", OWNED)
            before, began = persistent(cluster, auth), time.perf_counter()
            took_s = repaired(accident, cluster, store, key_file, number)
            until_in_sync(cluster, partitions)
            whole_s = time.perf_counter() - began
            lost = set(records) - set(consumed(cluster, partitions))
            after = persistent(cluster, auth)
            differing = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
            if lost or differing:
                sys.exit(f"{accident}: lost {sorted(lost)}, other znodes {differing}")
            if accident == SECURED:
                with connect(cluster.zookeeper_connect, auth=OWNER) as session:
                    session.client.set_acls("/config_before", OPEN_ACL_UNSAFE)
            print(f"| {number} | {accident} | {STOPPED[accident]} | {took_s:.1f} | {whole_s:.1f} |", flush=True)


if __name__ == "__main__":
    main()
