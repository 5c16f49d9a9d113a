"""Scenarios on the simulated cluster, and the whole walk of a reassignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller_core.model.errors import MalformedZnodeError, NodeExistsError, PlacementError
from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.ports.zookeeper import ANY_VERSION, Create
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.simulated.cluster import SimulatedCluster, SimulatedController
from controller_core.znodes import (
    CONTROLLER,
    REASSIGN_PARTITIONS,
    ControllerZnode,
    decode_reassign_partitions,
    encode_controller,
    encode_controller_epoch,
    encode_reassign_partitions,
    encode_state,
    partition_path,
    state_path,
    topic_path,
)
from tests.conformance.placement import create_topic
from tests.conformance.vector import (
    Document,
    Operation,
    UnsupportedError,
    Vector,
    assignment_of,
    assignment_record,
    brokers_of,
    leadership_of,
    partition_of,
)

AUTO_REBALANCE = "auto.leader.rebalance.enable"
Topics = dict[str, dict[int, ReplicaAssignment]]


def scenario(vector: Vector) -> Document:
    world = World(vector, vector.given["brokers"], vector.given.get("topics", {}), vector.given.get("controller"))
    return {"after_steps": [world.do(step) for step in vector.action["steps"]]}


def submit_reassignment(vector: Vector) -> Document:
    world = World(vector, vector.given["live_brokers"], vector.given["assignments"])
    return world.do(vector.action)


def scenario_sequence(vector: Vector) -> Document:
    world = World(vector, vector.given["live_brokers"], vector.given.get("assignments", {}))
    after = [world.do(step) for step in vector.action["steps"]]
    accepted = next((each["accepted"] for each in reversed(after) if each.get("accepted") is not None), None)
    return {**after[-1], "accepted": accepted, "after_steps": after}


class World:
    """The cluster of one vector, and what its steps left behind."""

    def __init__(
        self, vector: Vector, brokers: Iterable[int], topics: Mapping[str, Any], first: int | None = None
    ) -> None:
        self.config = {AUTO_REBALANCE: "false", **vector.given.get("broker_config", {})}
        self.cluster = SimulatedCluster(vector.controller_dialect, broker_config=self.config)
        self.kafka: KafkaZk = self.cluster.tools
        self.named = _named_topics(vector, topics)
        self.submitted: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.last_controller: BrokerId | None = None
        self.active_controller: SimulatedController | None = None
        live = brokers_of(sorted(brokers))
        initial = _topics(topics)
        if not live:
            self.cluster.create_topics(initial)
            return
        leader = BrokerId(first) if first is not None else live[0]
        for broker in (leader, *(each for each in live if each != leader)):
            self.cluster.start_broker(broker)
            if broker == leader:
                self.cluster.settle()
        self.cluster.settle()
        self.cluster.create_topics(initial)
        self.cluster.settle()
        self._remember_active_controller()

    def do(self, step: Document) -> Document:
        for node in self.cluster.nodes.values():
            node.controller.refusals.clear()
        self.cluster.shutdown_replies.clear()
        self._remember_active_controller()
        act = getattr(self, f"_do_{step['op']}", None)
        if act is None:
            raise UnsupportedError(f"step {step['op']!r} is not known")
        after: Document = act(step) or {}
        if step.get("settle", True):
            self.settle()
        replies = self.cluster.shutdown_replies
        if replies:
            reply = replies[-1]
            after |= {"error": reply.error.removesuffix("Exception")} if reply.error else {}
            after["still_led_count"] = len(reply.partitions_still_led)
        return {**self.report(), **after}

    def settle(self) -> None:
        self.cluster.settle()
        if str(self.config[AUTO_REBALANCE]).lower() == "true":
            self.cluster.check_rebalance()
            self.cluster.settle()

    def _remember_active_controller(self) -> None:
        active = self.cluster.active_controller()
        if active is not None:
            self.active_controller = active

    # ---- brokers ----

    def _do_start_cluster(self, step: Document) -> None:
        """It is up already."""

    def _do_stop_broker(self, step: Document) -> None:
        broker = self._broker(step["broker"])
        holder = self.kafka.get_controller()
        if holder is not None and holder.broker_id == broker:
            self.last_controller = broker
        self.cluster.stop_broker(broker)

    def _do_start_broker(self, step: Document) -> None:
        self.cluster.start_broker(self._broker(step["broker"]))

    def _do_start_brokers(self, step: Document) -> None:
        for broker in sorted(step["brokers"]):
            self.cluster.start_broker(BrokerId(broker))

    def _do_bounce_broker(self, step: Document) -> None:
        broker = self._broker(step["broker"])
        self.cluster.stop_broker(broker)
        self.cluster.start_broker(broker)

    def _do_controlled_shutdown(self, step: Document) -> None:
        broker = self._broker(step["broker"])
        found = self.kafka.get_broker(broker)
        epoch = found.broker.epoch if found else 0
        self.cluster.ask_controlled_shutdown(broker, epoch + step.get("broker_epoch_offset", 0))

    def _do_fail_log_dir(self, step: Document) -> None:
        self.cluster.fail_log_dir(self._broker(step["broker"]), partition_of(step["of_partition"]))

    def _broker(self, named: Any) -> BrokerId:
        if named == "controller before":
            if self.last_controller is None:
                raise UnsupportedError("no broker was stopped as controller before")
            return self.last_controller
        if named == "controller":
            holder = self.kafka.get_controller()
            if holder is None:
                raise UnsupportedError("there is no controller")
            return holder.broker_id
        return BrokerId(named)

    # ---- topics ----

    def _do_create_topic(self, step: Document) -> Document:
        try:
            create_topic(self.kafka, step["topic"], step["assignment"])
        except PlacementError as error:
            return {"error": error.kafka_name.removesuffix("Exception")}
        return {}

    _do_create_topic_with_assignment = _do_create_topic

    def _do_set_topic_assignment(self, step: Document) -> None:
        for topic, assignments in _topics(step["assignment"]).items():
            znodes, _ = self.kafka.get_topics([topic])
            known = znodes.get(topic)
            self.kafka.set_topic(topic, assignments, known.topic_id if known else None, None)

    def _do_add_partitions(self, step: Document) -> None:
        topic = step["topic"]
        znodes, _ = self.kafka.get_topics([topic])
        added = {int(number.rpartition("-")[2]): _assignment(each) for number, each in step["assignment"].items()}
        self.kafka.set_topic(topic, {**znodes[topic].assignments, **added}, znodes[topic].topic_id, None)

    def _do_delete_topic(self, step: Document) -> Document:
        topic = step["topic"]
        if not self.kafka.exists(topic_path(topic)):
            return {"error": "UnknownTopicOrPartition"}
        try:
            self.kafka.create_delete_topic(topic)
        except NodeExistsError:
            return {"error": "TopicAlreadyMarkedForDeletion"}
        return {}

    # ---- requests ----

    def _do_submit_reassignment(self, step: Document) -> Document:
        data = step["json"].encode() if "json" in step else None
        path = step.get("path", REASSIGN_PARTITIONS)
        if data is None:
            data = encode_reassign_partitions({partition_of(p): brokers_of(ids) for p, ids in step["targets"].items()})
        try:
            targets = decode_reassign_partitions(data)
        except MalformedZnodeError:
            return {"accepted": False}
        self.submitted |= targets
        known = {partition for topic in self.kafka.list_topics() for partition in self.kafka.full_assignments(topic)}
        if not targets or not targets.keys() <= known:
            return {"accepted": False}
        try:
            self.kafka.create_recursive(path, data)
        except NodeExistsError:
            return {"accepted": False}
        return {"accepted": True}

    def _do_create_preferred_election(self, step: Document) -> Document:
        try:
            self.kafka.create_preferred_election([partition_of(name) for name in step["partitions"]])
        except NodeExistsError:
            return {"error": "NodeExists"}
        return {}

    # ---- the active controller ----

    def _do_block_event_thread(self, step: Document) -> None:
        if self.active_controller is not None:
            self.active_controller.is_blocked = True

    def _do_unblock_event_thread(self, step: Document) -> None:
        for node in self.cluster.nodes.values():
            node.controller.is_blocked = False

    def _do_replace_controller_node(self, step: Document) -> None:
        zookeeper = self.kafka.zookeeper
        zookeeper.delete(CONTROLLER, ANY_VERSION)
        version = self.kafka.formats.controller_version
        other = ControllerZnode(broker_id=BrokerId(step["new_id"]), version=version)
        zookeeper.multi([Create(path=CONTROLLER, data=encode_controller(other), ephemeral=True)])
        current = self.kafka.get_controller_epoch()
        if step.get("bump_epoch") and current is not None:
            self.kafka.zookeeper.set("/controller_epoch", encode_controller_epoch(current.epoch + 1), current.version)

    # ---- report ----

    def report(self) -> Document:
        states = self._states()
        assignments = self._assignments()
        if all(node.controller is not self.active_controller for node in self.cluster.nodes.values()):
            self.active_controller = self.cluster.active_controller()  # the one before it is gone
        active = self.active_controller
        epoch = self.kafka.get_controller_epoch()
        moved = [
            refusal
            for node in self.cluster.nodes.values()
            for refusal in node.controller.refusals
            if refusal.kind is RefusalKind.CONTROLLER_MOVED
        ]
        requested = self._requested()
        under_way = active.context.partitions_under_reassignment() if active and active.is_active else []
        return {
            "controller_exists": self.kafka.exists(CONTROLLER),
            "controller_epoch": epoch.epoch if epoch else None,
            "controller_active": bool(active and active.is_active),
            "raised": (moved[0].error or "ControllerMoved") if moved else None,
            "partition_state": {str(partition): _state_record(state) for partition, state in states.items()},
            "assignments": {str(partition): assignment_record(each) for partition, each in assignments.items()},
            "reassign_node_exists": self.kafka.reassignment_in_progress(),
            "reassign_node_contains": sorted(map(str, requested)),
            "preferred_node_exists": self.kafka.get_preferred_election() is not None,
            "partitions_being_reassigned": sorted(map(str, under_way)),
            "accepted": None,
            "tool_status": {str(p): self._status(p, requested, assignments) for p in self.submitted},
            "still_led_count": None,
            **self._report_topics(states, assignments),
            **self._report_logs(assignments),
            **self._report_caches(),
            "isr_equals_replicas": self._isr_equals_replicas(states, assignments),
        }

    def _report_topics(
        self, states: Mapping[TopicPartition, LeaderAndIsr], assignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Document:
        live = self.cluster.nodes.keys()

        def led(topic: str) -> bool:
            partitions = [partition for partition in assignments if partition.topic == topic]
            return bool(partitions) and all(p in states and states[p].leader in live for p in partitions)

        return {
            "topic_path_exists": {topic: self.kafka.exists(topic_path(topic)) for topic in self.named},
            "delete_request_exists": {topic: self.kafka.is_marked_for_deletion(topic) for topic in self.named},
            "leader_exists": {topic: led(topic) for topic in self.named},
        }

    def _report_logs(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Document:
        logs = {broker: set(disk.logs) for broker, disk in sorted(self.cluster.disks.items())}
        everywhere = {partition for held in logs.values() for partition in held}
        partitions = sorted({*everywhere, *assignments, *self.submitted, *self._named_partitions()})
        exist = {topic: any(partition.topic == topic for partition in everywhere) for topic in self.named}
        exist |= {str(partition): partition in everywhere for partition in partitions}
        on = {
            topic: {str(broker): any(each.topic == topic for each in held) for broker, held in logs.items()}
            for topic in self.named
        }
        on |= {str(each): {str(broker): each in held for broker, held in logs.items()} for each in partitions}
        one = next(iter(self.submitted), None) or next(iter(sorted(assignments)), None)
        return {
            "logs_exist": exist,
            "logs_exist_on": on,
            "partition_dirs_exactly_on": [broker for broker, held in logs.items() if one in held],
        }

    def _report_caches(self) -> Document:
        brokers = {str(broker): node.broker for broker, node in sorted(self.cluster.nodes.items())}
        return {
            "metadata_on": {
                broker: {
                    str(partition): {
                        "leader": cached.leader,
                        "replicas_non_empty": bool(cached.replicas),
                        "isr_non_empty": bool(cached.isr),
                        "offline_replicas_non_empty": bool(cached.offline_replicas),
                    }
                    for partition, cached in sorted(each.cached.items())
                }
                for broker, each in brokers.items()
            },
            "partitions_hosted_by": {broker: len(each.hosted) for broker, each in brokers.items()},
            "topics_known_to": {
                broker: sorted({partition.topic for partition in each.cached}) for broker, each in brokers.items()
            },
            "live_brokers_known_to": {broker: list(each.cached_brokers) for broker, each in brokers.items()},
        }

    def _isr_equals_replicas(
        self, states: Mapping[TopicPartition, LeaderAndIsr], assignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> bool:
        partitions = [each for each in self.submitted if each in assignments] or list(assignments)
        return bool(partitions) and all(
            each in states and set(states[each].isr) == set(assignments[each].replicas) for each in partitions
        )

    def _status(
        self,
        partition: TopicPartition,
        requested: Iterable[TopicPartition],
        assignments: Mapping[TopicPartition, ReplicaAssignment],
    ) -> str:
        if partition in requested:
            return "in progress"
        held = assignments.get(partition)
        return "completed" if held is not None and held.replicas == self.submitted[partition] else "failed"

    def _requested(self) -> list[TopicPartition]:
        try:
            return list(self.kafka.get_reassignment() or ())
        except MalformedZnodeError:
            return []

    def _assignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        return {
            partition: assignment
            for topic in self.kafka.list_topics()
            for partition, assignment in self.kafka.full_assignments(topic).items()
        }

    def _states(self) -> dict[TopicPartition, LeaderAndIsr]:
        partitions = sorted({*self._assignments(), *self._named_partitions()})
        states, _ = self.kafka.get_states(partitions)
        return states

    def _named_partitions(self) -> set[TopicPartition]:
        return set(self.submitted)


# ---- the walk of a reassignment --------------------------------------------------------------------------------------


def reassign_walk(vector: Vector) -> Document:
    given, action = vector.given["context"], vector.action
    partition, target = partition_of(action["partition"]), brokers_of(action["target"])
    cluster = SimulatedCluster(vector.controller_dialect, broker_config={AUTO_REBALANCE: "false"})
    kafka = cluster.tools
    for topic, assignments in _topics(given["assignments"]).items():
        kafka.create_topic(topic, assignments)
    for name, record in given["leadership"].items():
        kafka.create_recursive(partition_path(partition_of(name)))
        kafka.create_recursive(state_path(partition_of(name)), encode_state(leadership_of(record)))
    live = brokers_of([broker["id"] for broker in given["live_brokers"]])
    first = BrokerId(given.get("controller_id", live[0]))
    for broker in (first, *(each for each in live if each != first)):
        cluster.start_broker(broker)
    cluster.settle()
    rows = [_row(kafka, partition)]
    cluster.server.listen(lambda _: rows.append(_row(kafka, partition)))
    kafka.create_reassignment({partition: target})
    cluster.settle()
    return {"zk_rows": _walk(rows)}


def _row(kafka: KafkaZk, partition: TopicPartition) -> Document:
    states, _ = kafka.get_states([partition])
    state = states[partition]
    assignment = kafka.full_assignments(partition.topic)[partition]
    return {"assignment": list(assignment.replicas), "leader": state.leader, "isr": list(state.isr)}


def _walk(rows: list[Document]) -> list[Document]:
    """Rows that differ from the one before; of ISR shrinks in a row, the last."""
    walk: list[Document] = []
    for row in rows:
        if walk and row == walk[-1]:
            continue
        if len(walk) > 1 and _shrinks(walk[-2], walk[-1]) and _shrinks(walk[-1], row):
            walk.pop()
        walk.append(row)
    return walk


def _shrinks(before: Document, after: Document) -> bool:
    same = all(before[key] == after[key] for key in ("assignment", "leader"))
    return same and set(after["isr"]) < set(before["isr"])


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _topics(assignments: Mapping[str, Any]) -> Topics:
    topics: Topics = {}
    for name, each in assignments.items():
        partition = partition_of(name)
        topics.setdefault(partition.topic, {})[partition.partition] = _assignment(each)
    return topics


def _assignment(value: Any) -> ReplicaAssignment:
    return assignment_of({"replicas": value} if isinstance(value, list) else value)


def _named_topics(vector: Vector, topics: Mapping[str, Any]) -> list[str]:
    """Every topic that the vector names."""
    named = {partition_of(name).topic for name in topics}
    for step in vector.action.get("steps", [vector.action]):
        named |= {step["topic"]} if "topic" in step else set()
        named |= {partition_of(name).topic for name in step.get("targets", {})}
        named |= {partition_of(name).topic for name in step.get("partitions", [])}
        if step["op"] == "set_topic_assignment":
            named |= {partition_of(name).topic for name in step["assignment"]}
    return sorted(named)


def _state_record(state: LeaderAndIsr) -> Document:
    return {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "recovery": state.recovery.name,
        "controller_epoch": state.controller_epoch,
    }


OPS: dict[str, Operation] = {
    "scenario": scenario,
    "submit_reassignment": submit_reassignment,
    "scenario_sequence": scenario_sequence,
    "reassign_walk": reassign_walk,
}
