"""A real cluster is migrated from ZooKeeper by the run-book that is generated from its snapshot, under the watch, to finalised or back; the snapshot is rehearsed before.

    python -m tests.kafka_maintenance.operations.kraft.real_migration [end|back|left-over]

`back` returns from dual write to ZooKeeper instead of finalising; `left-over` goes back right after the copy and forgets `/migration`, which is refused until it is deleted; a second quorum then
copies again. Ids, cluster and order of the brokers are those of the run-book, each step of which is ticked off when its check holds; `end` leaves no step of it open. A snapshot is taken in every phase. Three brokers and one controller of Kafka 3.9, records produced in every phase. Exit status 0: each phase was told, no acknowledged record was lost, and the records of the
real migration are those of the rehearsal but for leaders and epochs.
"""

import argparse
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from kafka.admin import NewTopic

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import MigratingClusterError
from kafka_maintenance.demo.traffic import create_topic, message_counts, produce
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.kraft.asked import NoBrokerAnsweredError
from kafka_maintenance.operations.kraft.brokers_say import ask_topics, contradictions, cut_off
from kafka_maintenance.operations.kraft.certificate import certify, is_ready
from kafka_maintenance.operations.kraft.departure import leave
from kafka_maintenance.operations.kraft.drift import disagreements, read_log
from kafka_maintenance.operations.kraft.rehearsal.attempt import attempt
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.expected import facts_of
from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import rehearse_snapshot
from kafka_maintenance.operations.kraft.rehearsal.records import migrated
from kafka_maintenance.operations.kraft.rehearsal.report import rehearsal_json
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum
from kafka_maintenance.operations.kraft.runbook import brokers_in_order, controller_ids, runbook
from kafka_maintenance.operations.kraft.watch import Advice, judge, judgement_text, look
from kafka_maintenance.operations.snapshots.catalog import read_raw
from kafka_maintenance.operations.snapshots.take import require_zookeeper_mode, take_snapshot
from kafka_maintenance.servers import KafkaCluster, ZooKeeperServer
from kafka_maintenance.servers.java import find_java
from kafka_maintenance.servers.kraft_controller import KRaftController, Storage, program
from kafka_maintenance.servers.ports import listens
from kafka_maintenance.servers.process import start_child, wait_until
from spark_jobs.kraft.phase import PhaseId
from spark_jobs.kraft.tree import tree_of

VERSION = "3.9"
TOPIC = "orders"
PAUSE_S = 6
RACKS = ("b", "a", "c")
NOT_HERE = ("On 3 hosts of their own", "Offset still -1", "Nothing but Kafka")
"""Beginnings of steps for hosts, for people, or for what did not happen."""
PRE_MIGRATION, MIGRATION, POST_MIGRATION = 2, 1, 3  # Kafka 3.9 `ZkMigrationState`
WRITE_BEHIND_MAX = 100
"""Records of the metadata log that ZooKeeper may lack in a cluster in which nearly nothing happens."""
REPLICATED = {"offsets.topic.replication.factor": "3", "min.insync.replicas": "2"}


class Day:
    """One cluster, its quorum, and what was acknowledged so far."""

    def __init__(self, cluster):
        self.cluster, self.address = cluster, ClusterAddress(cluster.zookeeper_connect)
        self.begun_s, self.acknowledged, self.controller = time.monotonic(), 0, None
        self.store, self.book = MemoryStore("day"), ""

    def say(self, text):
        print(f"[{time.monotonic() - self.begun_s:5.1f} s] {text}", flush=True)

    def traffic(self):
        self.acknowledged += produce(self.cluster, TOPIC, 0, count=50)

    def metric(self, name):
        """A metric of the controller, as its own JVM tells it to whoever may attach to it (JMX)."""
        reader = Path(__file__).with_name("Metric.java")
        named = f"kafka.controller:type=KafkaController,name={name}"
        command = [str(find_java().program), str(reader), str(self.controller.child.pid), named]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        self.say(f"{name} is {told}")
        return int(told)

    def await_phase(self, phase, advice=Advice.GO, timeout_s=90, registrations=None):
        """Until the watch sees the phase and gives the advice."""
        deadline_s = time.monotonic() + timeout_s
        before = look(self.address, datetime.now(UTC))
        while time.monotonic() < deadline_s:
            time.sleep(PAUSE_S)
            now = look(self.address, datetime.now(UTC))
            found = judge(before, now, registrations)
            if (found.phase.id, found.advice) == (phase, advice):
                self.say(judgement_text(found).replace("\n", " | "))
                certificate = self.certified()
                assert certificate.phase.id is phase, certificate.phase
                return
            before = now
        raise AssertionError(f"expected {phase} and {advice}, found {judgement_text(found)}")

    def snapshot(self):
        """Manifest and tree of a snapshot taken now."""
        run = f"run-{time.monotonic_ns()}"
        taken = take_snapshot(address=self.address, cluster="day", store=self.store, run_id=run, now=datetime.now(UTC))
        return taken.manifest, tree_of(read_raw(self.store, taken.manifest))

    def certified(self):
        """The certificate of a snapshot taken now."""
        manifest, tree = self.snapshot()
        return certify(tree, manifest)

    def read_runbook(self):
        """The run-book of a snapshot taken now, with the counts and times of its rehearsal; the tree of that snapshot."""
        manifest, tree = self.snapshot()
        rehearsal = rehearsal_json(rehearse_snapshot(self.store, manifest, Quorum(version=VERSION)))
        self.book = runbook(certify(tree, manifest), tree, rehearsal)
        return tree

    def done(self, part, words):
        """Ticks off the one step of that part of the run-book which has these words."""
        (section,) = (each for each in self.book.split("\n## ") if each.startswith(f"{part}."))
        (step,) = (line for line in section.splitlines() if line.startswith("- [ ]") and words in line)
        self.book = self.book.replace(step, step.replace("[ ]", "[x]", 1), 1)
        self.say(step.replace("[ ]", "[x]", 1))

    def left(self):
        """The steps of the day that are not ticked off; what comes before it are decisions."""
        day = self.book.partition("\n## 1.")[2]
        return [line.removeprefix("- [ ] ") for line in day.splitlines() if line.startswith("- [ ]")]

    def rehearsed(self, tree):
        """The facts of the records of a rehearsal of the tree."""
        copy = copy_of(tree)
        with ZooKeeperServer() as zookeeper:
            storage = Storage(zookeeper.workspace, version=VERSION, node_id=3000, cluster_id=copy.cluster_id)
            found = attempt(copy, storage, zookeeper, "rehearsal", {})
        self.say(f"rehearsal: {found.end.value}, {found.records.counts}")
        return copy.cluster_id, facts(found.records)

    def start_quorum(self, cluster_id, node_id):
        storage = Storage(self.cluster.workspace, version=VERSION, node_id=node_id, cluster_id=cluster_id)
        name = f"controller-{node_id}"
        self.controller = KRaftController(storage, zookeeper_connect=self.cluster.zookeeper_connect, name=name).start()
        self.quorum = {
            "controller.quorum.voters": f"{node_id}@127.0.0.1:{self.controller.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def roll_into_migration_mode(self, brokers):
        self.cluster.config |= {"zookeeper.metadata.migration.enable": "true", **self.quorum}
        for broker in brokers:
            broker.terminate()
            broker.start()
            self.traffic()
            self.done(2, f"Broker {broker.id},")

    def roll_into_kraft_mode(self, broker):
        settings = {
            key: value
            for key, value in broker.settings().items()
            if not key.startswith("zookeeper.") and key != "broker.id"
        }
        settings |= {"process.roles": "broker", "node.id": str(broker.id), **self.quorum}
        broker.terminate()
        path = self.cluster.folder / f"kraft-{broker.id}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [*program(self.cluster.workspace, VERSION, heap_mb=128), "kafka.Kafka", str(path)]
        broker._child = child = start_child(self.cluster.workspace, f"kraft-{broker.id}", command)
        wait_until(lambda: listens(broker.port), what=f"broker {broker.id} listens", timeout_s=90, children=[child])

    def registrations(self):
        """From a copy of the metadata log, as an operator makes it."""
        copy = self.cluster.workspace.folder / "log-copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.controller.folder / "data" / "__cluster_metadata-0", copy)
        says = read_log(copy, VERSION)
        tree = look(self.address, datetime.now(UTC)).tree
        assert not list(disagreements(tree, says.replicas)), (says.replicas, tree.topics)
        self.say(f"{len(says.replicas)} partitions are the same in ZooKeeper and in the metadata log")
        return says.registrations

    def brokers_agree(self):
        """Until the brokers tell clients what stands in ZooKeeper."""
        brokers = BrokersAsked(self.cluster.bootstrap_servers)

        def differences():
            told, tree = ask_topics(brokers), look(self.address, datetime.now(UTC)).tree
            assert cut_off(tree, told) is None
            return list(contradictions(tree, told))

        wait_until(lambda: not differences(), what="brokers and ZooKeeper agree", timeout_s=60)
        self.say("brokers tell clients of the topics, ids, replicas and leaders of ZooKeeper")

    def clients_topic_reaches_zookeeper(self):
        """As a client makes it, through the brokers."""
        brokers = BrokersAsked(self.cluster.bootstrap_servers)
        with admin_client("a topic", brokers, 30.0, NoBrokerAnsweredError) as admin:
            admin.create_topics([NewTopic("made-in-dual-write", 1, 3)])
        with self.cluster.session() as session:
            state = "/brokers/topics/made-in-dual-write/partitions/0/state"
            wait_until(lambda: session.exists(state), what="the topic is in ZooKeeper", timeout_s=60)

    def finalise(self):
        self.controller.child.stop()
        path = self.controller.folder / "controller.properties"
        kept = [line for line in path.read_text().splitlines() if not line.startswith("zookeeper.")]
        path.write_text("\n".join(kept) + "\n")
        command = [*program(self.cluster.workspace, VERSION, heap_mb=256), "kafka.Kafka", str(path)]
        self.controller._child = start_child(self.cluster.workspace, "controller-finalised", command)
        wait_until(
            lambda: listens(self.controller.port),
            what="the controller listens",
            timeout_s=60,
            children=[self.controller._child],
        )


def facts(records):
    """What records say, without the leaders and epochs that a rolling restart moves."""
    return {
        (fact.key, str(fact.value[:3] if fact.key[0] == "PARTITION" else fact.value))
        for fact in facts_of(records.records)
    }


def to_dual_write(day):
    """From ZooKeeper mode to the copy, each phase told by the watch; the cluster's id."""
    create_topic(day.cluster, TOPIC, {0: (1, 2, 3), 1: (2, 3, 1)})
    day.traffic()
    day.await_phase(PhaseId.ZOOKEEPER)
    tree = day.read_runbook()
    cluster_id, rehearsed = day.rehearsed(tree)
    day.done(1, f"format -t {cluster_id} ")
    day.start_quorum(cluster_id, controller_ids(tree)[0])
    day.await_phase(PhaseId.QUORUM_STARTED)
    assert day.metric("ZkMigrationState") == PRE_MIGRATION
    day.done(1, "`/migration` appears with offset -1")
    order = [day.cluster[line.broker] for line in brokers_in_order(tree)]
    day.roll_into_migration_mode(order)
    day.await_phase(PhaseId.HYBRID)
    day.done(3, "`/controller` is persistent")
    assert day.metric("ZkMigrationState") == MIGRATION
    day.done(3, "its version rises")
    day.brokers_agree()
    real = facts(migrated(day.controller.dump_lines()))
    assert real == rehearsed, real ^ rehearsed
    assert "Completed migration of metadata from ZooKeeper to KRaft" in day.controller.log_text
    day.done(3, "with the counts of the rehearsal")
    day.say(f"{len(real)} facts of the real records are those of the rehearsal")
    return cluster_id, order


def to_kraft(day):
    """From ZooKeeper mode to dual write with all brokers in KRaft mode, each phase told by the watch."""
    _, order = to_dual_write(day)
    day.clients_topic_reaches_zookeeper()
    day.done(3, "made through the Admin API")
    for broker in order:
        day.roll_into_kraft_mode(broker)
        day.traffic()
        if broker is not order[-1]:
            day.await_phase(PhaseId.PARTLY_KRAFT)
        day.brokers_agree()
        day.done(4, f"Broker {broker.id},")
    assert "another KRaft controller is making writes" not in day.controller.log_text
    assert day.metric("ZkMigrationState") == MIGRATION
    assert 0 <= day.metric("ZkWriteBehindLag") <= WRITE_BEHIND_MAX
    day.done(5, "Daily:")
    day.await_phase(PhaseId.ALL_KRAFT, Advice.WAIT)  # the registrations are not known


def to_the_end(day):
    """Finalised: the watch allows it only with the registrations, and sees the end."""
    to_kraft(day)
    registrations = day.registrations()
    assert registrations == dict.fromkeys(day.cluster.brokers, False), registrations
    day.await_phase(PhaseId.ALL_KRAFT, registrations=registrations)
    day.done(6, "`kraft watch --metadata-log …` says GO")
    day.finalise()
    day.traffic()
    day.done(6, "On each controller")
    day.await_phase(PhaseId.ALL_KRAFT, Advice.WAIT, registrations=registrations)
    assert day.metric("ZkMigrationState") == POST_MIGRATION
    day.done(6, "`/migration` stands still")
    leave(day.store, "day", by="ann", reason="finalised", now=datetime.now(UTC))
    day.done(6, "kafka-maintenance kraft left")
    assert [step for step in day.left() if not step.startswith(NOT_HERE)] == []


def back_to_zookeeper(day):
    """The way back from dual write; a /migration that is left over is told before anything can happen to it."""
    to_kraft(day)
    for broker in day.cluster.brokers.values():
        broker.terminate()
        broker.start()  # its settings are those of migration mode
        day.traffic()
        day.say(f"broker {broker.id} is in migration mode again")
    day.controller.child.kill()
    with day.cluster.session() as session:
        session.delete("/controller", -1)
    day.await_phase(PhaseId.LEFT_OVER, Advice.GO_BACK)
    with day.cluster.session() as session:
        session.delete("/migration", -1)
    roll_out_of_migration_mode(day)
    day.await_phase(PhaseId.ZOOKEEPER)


def roll_out_of_migration_mode(day):
    """The brokers without the migration keys, one after the other."""
    for key in ("zookeeper.metadata.migration.enable", *day.quorum):
        del day.cluster.config[key]
    for broker in day.cluster.brokers.values():
        broker.terminate()  # it waits for the quorum that is down, and is killed
        broker.start()
        day.say(f"broker {broker.id} is in ZooKeeper mode")
    day.traffic()


def over_what_is_left(day):
    """A way back right after the copy that forgets /migration: everything is told to stop until it is deleted, then a second quorum copies."""
    cluster_id, order = to_dual_write(day)
    day.controller.child.kill()
    with day.cluster.session() as session:
        session.delete("/controller", -1)
    roll_out_of_migration_mode(day)
    day.await_phase(PhaseId.LEFT_OVER, Advice.GO_BACK)
    certificate = day.certified()
    assert certificate.obstacles == ("R5",), certificate.judged
    day.say(f"the certificate: R5 not met, {certificate.judged['R5'].evidence[0]}")
    with day.cluster.session() as session:
        try:
            require_zookeeper_mode(session, day.address)
        except MigratingClusterError as refusal:
            day.say(f"whoever wants to write: {refusal}")
        else:
            raise AssertionError("expected a refusal")
        session.delete("/migration", -1)
    day.await_phase(PhaseId.ZOOKEEPER)
    assert is_ready(day.certified())
    day.read_runbook()
    day.start_quorum(cluster_id, node_id=3001)
    day.await_phase(PhaseId.QUORUM_STARTED)
    day.roll_into_migration_mode(order)
    day.await_phase(PhaseId.HYBRID)


def main():
    ways = {"end": to_the_end, "back": back_to_zookeeper, "left-over": over_what_is_left}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=ways, nargs="?", default="end")
    way = ways[parser.parse_args().way]
    with KafkaCluster(VERSION, racks=RACKS, config=REPLICATED, heap_mb=128) as cluster:
        day = Day(cluster)
        way(day)
        held = message_counts(cluster, TOPIC)
        day.say(f"{day.acknowledged} records were acknowledged, {held} are there")
        assert held[0] >= day.acknowledged
        day.controller.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
