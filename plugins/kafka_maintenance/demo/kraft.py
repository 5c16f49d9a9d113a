"""`make demo-kraft`: a real cluster of three brokers is certified, rehearsed, damaged, rehearsed again with repairs, and described for its day.

Everything runs on loopback in a folder that is deleted at the end. It takes a minute.
"""

import json
import sys
import time
from datetime import UTC, datetime
from typing import Final

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from kafka_maintenance.demo.traffic import create_topic
from kafka_maintenance.operations.kraft.certificate import certificate_text
from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import rehearse_snapshot
from kafka_maintenance.operations.kraft.rehearsal.report import Rehearsal, rehearsal_json, rehearsal_text
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum
from kafka_maintenance.operations.kraft.runbook import runbook
from kafka_maintenance.operations.kraft.watch import judge, judgement_text, look
from kafka_maintenance.operations.snapshots.catalog import public_configs, read_manifest, read_raw
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import KafkaCluster
from spark_jobs.kraft.tree import tree_of

CLUSTER: Final = "demo"
VERSION: Final = "3.9"
_PAUSE_S: Final = 6
_DAMAGE: Final = {
    "/config/topics/gone": {"version": 1, "config": {"retention.ms": "1000"}},
    "/config/clients/reports": {"version": 1, "config": {"producer_rate": "5"}},
}
"""A config without its topic, and an unknown quota: Kafka takes both without a word."""


def main() -> int:
    """Runs the demo; the exit status is 0 when everything went as told."""
    store = MemoryStore("demo-kraft")
    with KafkaCluster(VERSION, racks=("a", "b", "c")) as cluster:
        address = ClusterAddress(cluster.zookeeper_connect)
        for name in ("orders", "payments"):
            create_topic(cluster, name, {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)})
        _say("1. The certificate of a healthy cluster")
        healthy = _rehearsed(store, address, "healthy", fix=False)
        print(certificate_text(healthy.certificate, datetime.now(UTC)))
        _say("2. Its rehearsal: a real controller migrates a copy")
        print(rehearsal_text(healthy))
        _say("3. What the watch says of the living cluster")
        before = look(address, datetime.now(UTC))
        time.sleep(_PAUSE_S)
        print(judgement_text(judge(before, look(address, datetime.now(UTC)))))
        _say("4. The cluster is damaged: a config without its topic, an unknown quota")
        with cluster.session() as session:
            _damage(session)
        damaged = _rehearsed(store, address, "damaged", fix=True)
        print(rehearsal_text(damaged))
    _say("5. The run-book of the healthy cluster")
    print(_runbook_of(store, healthy))
    return 0 if healthy.passed and not damaged.outcome.passed else 1


def _rehearsed(store: MemoryStore, address: ClusterAddress, run: str, *, fix: bool) -> Rehearsal:
    taken = take_snapshot(address=address, cluster=CLUSTER, store=store, run_id=run, now=datetime.now(UTC))
    return rehearse_snapshot(store, taken.manifest, Quorum(version=VERSION), fix=fix)


def _runbook_of(store: MemoryStore, rehearsal: Rehearsal) -> str:
    manifest = read_manifest(store, rehearsal.certificate.manifest_uri)
    tree = tree_of(read_raw(store, manifest), public_configs(store, manifest))
    return runbook(rehearsal.certificate, tree, rehearsal_json(rehearsal))


def _damage(session: KazooZooKeeper) -> None:
    for path, document in _DAMAGE.items():
        session.create(path, json.dumps(document).encode(), make_parents=True)


def _say(text: str) -> None:
    print(f"\n{'=' * 100}\n{text}\n{'=' * 100}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
