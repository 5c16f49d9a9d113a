"""Codec operations, and sequences of single calls of the ZooKeeper adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from controller_core import znodes
from controller_core.model.errors import (
    ControllerMovedError,
    MalformedZnodeError,
    NodeExistsError,
    NoNodeError,
    UnparsedZnodeError,
)
from controller_core.model.partitions import Broker, Endpoint, ReplicaAssignment
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.simulated.zookeeper import MemoryServer
from controller_core.znodes import BrokerZnode, TopicZnode
from tests.conformance.vector import (
    Document,
    Operation,
    UnsupportedError,
    Vector,
    assignment_of,
    assignment_record,
    brokers_of,
    leadership_of,
    leadership_record,
    partition_of,
)

TOPIC = "/brokers/topics/<t>"
STATE = "/brokers/topics/<t>/partitions/<p>/state"
TOPIC_OF_THE_VECTOR = "/brokers/topics/t"
STATE_OF_THE_VECTOR = "/brokers/topics/t/partitions/0/state"

# ---- codec -----------------------------------------------------------------------------------------------------------


def encode(vector: Vector) -> Document:
    return {"bytes_utf8": _encoded(vector).decode()}


def decode(vector: Vector) -> Document:
    return _decoded(vector, vector.given["data"].encode())


def encode_then_decode(vector: Vector) -> Document:
    return _decoded(vector, _encoded(vector))


def parse_reassignment_request(vector: Vector) -> Document:
    reading = _decode_reassignment(vector, vector.action["json"].encode())
    return {key: value for key, value in reading.items() if key != "controller_treats_as"}


def _encoded(vector: Vector) -> bytes:
    given = vector.given
    formats = formats_of(vector.controller_dialect)
    match vector.action["node"]:
        case "/admin/reassign_partitions":
            targets = {partition_of(name): brokers_of(ids) for name, ids in given["targets"].items()}
            return znodes.encode_reassign_partitions(targets)
        case "/admin/preferred_replica_election":
            return znodes.encode_preferred_replica_election(map(partition_of, given["partitions"]))
        case "/cluster/id":
            return znodes.encode_cluster_id(given["id"])
        case "/brokers/topics/<t>":
            numbered = {partition_of(name).partition: _replicas(each) for name, each in given["assignments"].items()}
            topic = TopicZnode(numbered, given.get("topic_id"), formats.topic_version)
            return znodes.encode_topic(topic, scala=formats.scala)
        case "/brokers/topics/<t>/partitions/<p>/state":
            return znodes.encode_state(leadership_of(given["leadership"]))
        case node:
            raise UnsupportedError(f"node {node!r} is not known")


def _decoded(vector: Vector, data: bytes) -> Document:
    match vector.action["node"]:
        case "/admin/reassign_partitions":
            return _decode_reassignment(vector, data)
        case "/admin/preferred_replica_election":
            return _read(lambda: {"partitions": _names(znodes.decode_preferred_replica_election(data))}, [])
        case "/cluster/id":
            return _read(lambda: {"id": znodes.decode_cluster_id(data)}, None)
        case "/brokers/topics/<t>":
            return _read(lambda: _topic(vector, znodes.decode_topic(data, path=TOPIC_OF_THE_VECTOR)), {})
        case "/brokers/topics/<t>/partitions/<p>/state":
            version = vector.given.get("zk_version", 0)
            return _read(
                lambda: {
                    "leadership": leadership_record(
                        znodes.decode_state(data, path=STATE_OF_THE_VECTOR, version=version)
                    )
                },
                None,
            )
        case node:
            raise UnsupportedError(f"node {node!r} is not known")


def _read(attempt: Callable[[], Document], otherwise: Any) -> Document:
    try:
        return attempt()
    except UnparsedZnodeError:
        return {"error": "json", "controller_treats_as": otherwise}
    except MalformedZnodeError as error:
        return {"error": f"field: {error.what}"}


def _decode_reassignment(vector: Vector, data: bytes) -> Document:
    bound = formats_of(vector.controller_dialect).bound_reassignment
    return _read(
        lambda: {
            "targets": {
                str(partition): list(replicas)
                for partition, replicas in znodes.decode_reassign_partitions(data, bound_to_class=bound).items()
            }
        },
        {},
    )


def _topic(vector: Vector, topic: TopicZnode) -> Document:
    named = [*vector.given.get("assignments", {}), *(vector.ask.get("assignments") or {}), "t-0"]
    name = partition_of(named[0]).topic  # the data does not say whose they are
    records = {f"{name}-{number}": assignment_record(each) for number, each in topic.assignments.items()}
    return {"assignments": records, "topic_id": topic.topic_id}


def _replicas(value: Any) -> ReplicaAssignment:
    return assignment_of({"replicas": value} if isinstance(value, list) else value)


def _names(partitions: Sequence[Any]) -> list[str]:
    return [str(partition) for partition in partitions]


# ---- sequences on a ZooKeeper ----------------------------------------------------------------------------------------


def zk_sequence(vector: Vector) -> Document:
    kafka = KafkaZk(MemoryServer().session(), formats_of(vector.controller_dialect))
    for path, data in sorted(vector.given.get("zk", {}).items()):  # parents first
        kafka.create_recursive(path, b"" if data is None else data.encode())
    states = {partition_of(name): leadership_of(record) for name, record in vector.given.get("zk_states", {}).items()}
    for partition, state in states.items():
        kafka.create_recursive(znodes.state_path(partition), znodes.encode_state(state))
    calls = _Calls(kafka, checks_epoch=vector.controller_dialect.epoch_fencing)
    return {"after_steps": [calls.report(step) for step in vector.action["steps"]]}


class _Calls:
    """One method per step; what it returns is the report."""

    def __init__(self, kafka: KafkaZk, *, checks_epoch: bool) -> None:
        self.kafka = kafka
        self.checks_epoch = checks_epoch

    def report(self, step: Document) -> Document:
        call = getattr(self, step["op"], None)
        if call is None or step["op"] in {"report", "epoch_version"}:
            raise UnsupportedError(f"step {step['op']!r} is not known")
        after: Document = {}
        try:
            after = call(step) or {}
        except ControllerMovedError:
            after["error"] = "ControllerMoved"
        except NodeExistsError:
            after["error"] = "ControllerMoved" if step["op"] == "register_controller" else "NodeExists"
        except NoNodeError:
            after["error"] = "NoNode"
        except ValueError:
            after["error"] = "IllegalArgument"
        kind = step["op"].removeprefix("delete_all_").removeprefix("delete_")
        if step["op"].startswith("delete_") and kind in {"isr_notifications", "log_dir_events"}:
            after["remaining"] = getattr(self.kafka, f"list_{kind}")()
        return after

    def epoch_version(self, step: Document) -> int | None:
        current = self.kafka.get_controller_epoch()
        if not self.checks_epoch or current is None:
            return None
        return current.version + int(step.get("epoch_zk_version_offset", 0))

    def create(self, step: Document) -> None:
        self.kafka.create_recursive(step["path"])

    def exists(self, step: Document) -> Document:
        return {"result": self.kafka.exists(step["path"])}

    def delete_recursive(self, step: Document) -> Document:
        return {"result": self.kafka.delete_recursive(step["path"], self.epoch_version(step))}

    # notifications

    def propagate_isr_changes(self, step: Document) -> Document:
        return self._created(self.kafka.propagate_isr_changes([partition_of(name) for name in step["partitions"]]))

    def propagate_log_dir_event(self, step: Document) -> Document:
        return self._created(self.kafka.propagate_log_dir_event(step["broker"]))

    def list_isr_notifications(self, step: Document) -> Document:
        return {"result": self.kafka.list_isr_notifications()}

    def list_log_dir_events(self, step: Document) -> Document:
        return {"result": self.kafka.list_log_dir_events()}

    def read_isr_notifications(self, step: Document) -> Document:
        return {"result": _names(self.kafka.read_isr_notifications(step["sequences"]))}

    def read_log_dir_events(self, step: Document) -> Document:
        return {"result": list(self.kafka.read_log_dir_events(step["sequences"]))}

    def delete_isr_notifications(self, step: Document) -> None:
        self.kafka.delete_isr_notifications(step["sequences"], self.epoch_version(step))

    def delete_log_dir_events(self, step: Document) -> None:
        self.kafka.delete_log_dir_events(step["sequences"], self.epoch_version(step))

    def delete_all_isr_notifications(self, step: Document) -> None:
        self.kafka.delete_isr_notifications(self.kafka.list_isr_notifications(), self.epoch_version(step))

    def delete_all_log_dir_events(self, step: Document) -> None:
        self.kafka.delete_log_dir_events(self.kafka.list_log_dir_events(), self.epoch_version(step))

    def _created(self, path: str) -> Document:
        return {"nodes": {path: self.kafka.zookeeper.get(path)[0].decode()}}

    # requests

    def get_reassignment(self, step: Document) -> Document:
        targets = self.kafka.get_reassignment() or {}
        return {"result": {str(partition): list(replicas) for partition, replicas in targets.items()}}

    def reassignment_in_progress(self, step: Document) -> Document:
        return {"result": self.kafka.reassignment_in_progress()}

    def create_reassignment(self, step: Document) -> None:
        self.kafka.create_reassignment(self._targets(step))

    def set_or_create_reassignment(self, step: Document) -> None:
        self.kafka.set_or_create_reassignment(self._targets(step), self.epoch_version(step))

    def delete_reassignment(self, step: Document) -> None:
        self.kafka.delete_reassignment(self.epoch_version(step))

    def get_preferred_election(self, step: Document) -> Document:
        return {"result": _names(self.kafka.get_preferred_election() or ())}

    def create_preferred_election(self, step: Document) -> None:
        self.kafka.create_preferred_election([partition_of(name) for name in step["partitions"]])

    def delete_preferred_election(self, step: Document) -> None:
        self.kafka.delete_preferred_election(self.epoch_version(step))

    def is_marked_for_deletion(self, step: Document) -> Document:
        return {"result": self.kafka.is_marked_for_deletion(step["topic"])}

    def list_topic_deletions(self, step: Document) -> Document:
        return {"result": self.kafka.list_topic_deletions()}

    def create_delete_topic(self, step: Document) -> None:
        self.kafka.create_delete_topic(step["topic"])

    def delete_topic_deletions(self, step: Document) -> None:
        self.kafka.delete_topic_deletions(step["topics"], self.epoch_version(step))

    def delete_topic_znode(self, step: Document) -> None:
        self.kafka.delete_topic_znode(step["topic"], self.epoch_version(step))

    def _targets(self, step: Document) -> dict[Any, Any]:
        return {partition_of(name): brokers_of(ids) for name, ids in step["targets"].items()}

    # controller

    def get_controller_epoch(self, step: Document) -> Document:
        found = self.kafka.get_controller_epoch()
        return {"result": found.epoch if found else None}

    def create_controller_epoch(self, step: Document) -> Document:
        return {"code": self.kafka.create_controller_epoch(step["epoch"])}

    def set_controller_epoch(self, step: Document) -> Document:
        code, version = self.kafka.set_controller_epoch(step["epoch"], step["expected_version"])
        return {"code": code} if version is None else {"code": code, "version": version}

    def get_controller_id(self, step: Document) -> Document:
        found = self.kafka.get_controller()
        return {"result": found.broker_id if found else None}

    def register_controller(self, step: Document) -> None:
        self.kafka.register_controller(step["id"], 0)

    def delete_controller(self, step: Document) -> None:
        self.kafka.delete_controller(self.epoch_version(step))

    # states

    def create_states(self, step: Document) -> Document:
        codes = self.kafka.create_states(self._states(step), self.epoch_version(step))
        return {"codes": {str(partition): code for partition, code in codes.items()}}

    def set_states(self, step: Document) -> Document:
        codes, versions = self.kafka.set_states(self._states(step), self.epoch_version(step))
        return {
            "codes": {str(partition): code for partition, code in codes.items()},
            "versions": {str(partition): version for partition, version in versions.items()},
        }

    def get_states(self, step: Document) -> Document:
        states, _ = self.kafka.get_states([partition_of(name) for name in step["partitions"]])
        return {"states": {str(partition): leadership_record(state) for partition, state in states.items()}}

    def update_leader_and_isr(self, step: Document) -> Document:
        updated, retry, failed = self.kafka.update_leader_and_isr(self._states(step), self.epoch_version(step))
        return {
            "updated": {str(partition): leadership_record(state) for partition, state in updated.items()},
            "retry": _names(retry),
            "failed": {str(partition): _exception(code) for partition, code in failed.items()},
        }

    def leader_updates_isr(self, step: Document) -> Document:
        version = self.kafka.leader_updates_isr(partition_of(step["partition"]), leadership_of(step["leadership"]))
        return {"success": version is not None, "zk_version": -1 if version is None else version}

    def _states(self, step: Document) -> dict[Any, Any]:
        return {partition_of(name): leadership_of(record) for name, record in step["states"].items()}

    # topics

    def list_topics(self, step: Document) -> Document:
        return {"result": self.kafka.list_topics()}

    def partition_count(self, step: Document) -> Document:
        return {"result": self.kafka.partition_count(step["topic"])}

    def full_assignments(self, step: Document) -> Document:
        assignments = self.kafka.full_assignments(step["topic"])
        return {"result": {str(partition): assignment_record(each) for partition, each in assignments.items()}}

    def create_topic_assignment(self, step: Document) -> None:
        self.kafka.create_topic(step["topic"], self._numbered(step))

    def set_topic_assignment(self, step: Document) -> Document:
        return {"code": self.kafka.set_topic(step["topic"], self._numbered(step), None, self.epoch_version(step))}

    def _numbered(self, step: Document) -> dict[int, ReplicaAssignment]:
        return {partition_of(name).partition: _replicas(each) for name, each in step["assignment"].items()}

    # brokers and cluster

    def register_broker(self, step: Document) -> None:
        self.kafka.register_broker(self._broker(step))

    def update_broker(self, step: Document) -> None:
        self.kafka.update_broker(self._broker(step))

    def get_broker(self, step: Document) -> Document:
        found = self.kafka.get_broker(step["id"])
        if found is None:
            return {"result": None}
        endpoints = [f"{each.listener}://{each.host}:{each.port}" for each in found.broker.endpoints]
        return {"result": {"id": found.broker.id, "endpoints": endpoints}}

    def create_or_get_cluster_id(self, step: Document) -> Document:
        return {"result": self.kafka.create_or_get_cluster_id(step["id"])}

    def get_cluster_id(self, step: Document) -> Document:
        return {"result": self.kafka.get_cluster_id()}

    def next_broker_sequence_id(self, step: Document) -> Document:
        return {"result": self.kafka.next_broker_sequence_id()}

    def _broker(self, step: Document) -> BrokerZnode:
        protocol = step["protocol"]
        endpoint = Endpoint(step["host"], step["port"], protocol, protocol)
        plaintext = protocol == "PLAINTEXT"
        return BrokerZnode(
            broker=Broker(step["id"], endpoints=(endpoint,)),
            version=self.kafka.formats.broker_version,
            host=step["host"] if plaintext else None,
            port=step["port"] if plaintext else -1,
        )


def _exception(code: str) -> str:
    return {"NONODE": "NoNode", "NODEEXISTS": "NodeExists", "NOAUTH": "NoAuth"}.get(code, code)


OPS: dict[str, Operation] = {
    "encode": encode,
    "decode": decode,
    "encode_then_decode": encode_then_decode,
    "parse_reassignment_request": parse_reassignment_request,
    "zk_sequence": zk_sequence,
}
