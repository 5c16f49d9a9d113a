"""Operations of the conformance contract that `controller_core` answers without a cluster around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controller_core.context.context import ControllerContext
from controller_core.controller import elections
from controller_core.controller.elections import Elected, ElectionStrategy, Strategy
from controller_core.controller.leader_imbalance import leader_imbalance, triggered_brokers
from controller_core.controller.partition_state_machine import (
    ChangePartitionStates,
    StartPartitionMachine,
    TriggerOnlinePartitionStateChange,
    initial_partition_entries,
    select_for_trigger_online,
)
from controller_core.controller.replica_state_machine import ChangeReplicaStates, StartReplicaMachine
from controller_core.engine import request_batch
from controller_core.engine.batch import EMPTY
from controller_core.engine.turn import CallResults, Task
from controller_core.messages import effects as e
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.model.states import (
    VALID_PREVIOUS_PARTITION_STATES,
    PartitionState,
    ReplicaState,
    previous_replica_states,
)
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
    replica_of,
)
from tests.conformance.world import World, context_of, report, requests_of

# ---- elections -------------------------------------------------------------------------------------------------------


def elect_leader(vector: Vector) -> Document:
    given = vector.given
    assignment, isr, live = (brokers_of(given[name]) for name in ("assignment", "isr", "live_replicas"))
    match vector.action["algorithm"]:
        case "offline":
            permitted = given.get("unclean_leader_election_enabled", False)
            leader, unclean = elections.offline_leader(assignment, isr, live, unclean=permitted)
            return {"leader": leader, "unclean_election_counter_increment": int(unclean)}
        case "reassign":
            leader = elections.reassign_leader(assignment, isr, live)
        case "preferred":
            leader = elections.preferred_leader(assignment, isr, live)
        case _:
            leaving = brokers_of(given.get("shutting_down_brokers", []))
            leader = elections.controlled_shutdown_leader(assignment, isr, live, leaving)
    return {"leader": leader, "unclean_election_counter_increment": 0}


def run_strategy(vector: Vector) -> Document:
    given, action = vector.given, vector.action
    partition = TopicPartition("t", 0)
    told = {
        "live_brokers": [{"id": broker} for broker in given["live_brokers"]],
        "shutting_down_brokers": given.get("shutting_down_brokers", []),
        "offline_dirs": {str(broker): ["t-0"] for broker in given.get("offline_dirs", [])},
        "assignments": {"t-0": {"replicas": given["assignment"]}},
    }
    dialect = vector.controller_dialect
    if "leader_recovery_supported" in given:
        dialect = replace(dialect, leader_recovery_state=given["leader_recovery_supported"])
    context = context_of({"context": told, "broker_config": given.get("broker_config", {})}, dialect)
    leadership = leadership_of(given["leadership"])
    config = given.get("topic_config", {}).get("unclean.leader.election.enable")
    enabled = context.config.unclean_leader_election if config is None else str(config).lower() == "true"
    target = action.get("target_replicas")
    result = elections.elect(
        context,
        partition,
        leadership,
        ElectionStrategy(Strategy(action["strategy"])),
        unclean_permitted=enabled and not elections.has_live_isr_member(context, partition, leadership),
        target=None if target is None else brokers_of(target),
    )
    if not isinstance(result, Elected):
        return {"error": result.reason, "write": False, "unclean_election_counter_increment": 0}
    return leadership_record(result.leadership) | {
        "recipients": list(result.recipients),
        "unclean": result.unclean,
        "unclean_election_counter_increment": int(result.unclean),
        "write": result.leadership != leadership,
    }


# ---- state machines --------------------------------------------------------------------------------------------------


def strategy_of(told: Any) -> ElectionStrategy | None:
    if told is None:
        return None
    name, unclean = (told["name"], told.get("allow_unclean", False)) if isinstance(told, dict) else (told, False)
    return ElectionStrategy(Strategy(name), allow_unclean=unclean)


def machine_task(action: Document) -> Task | None:
    """The call of a state machine that a step stands for."""
    match action["op"]:
        case "partition_state_change":
            partitions = tuple(map(partition_of, action["partitions"]))
            target = PartitionState(action["target_state"])
            return ChangePartitionStates(partitions, target, strategy_of(action.get("strategy")))
        case "replica_state_change":
            return ChangeReplicaStates(tuple(map(replica_of, action["replicas"])), ReplicaState(action["target_state"]))
        case "trigger_online":
            return TriggerOnlinePartitionStateChange(action.get("topic"))
        case "partition_machine_startup":
            return StartPartitionMachine()
        case "replica_machine_startup":
            return StartReplicaMachine()
    return None


def election_results(results_of_call: CallResults) -> Document:
    """What a partition call returned: the new record without controller epoch, or that it failed."""
    results: Document = dict.fromkeys(map(str, results_of_call.failed), "failed")
    for partition, leadership in results_of_call.elected.items():
        record = leadership_record(leadership)
        del record["controller_epoch"]
        results[str(partition)] = record
    return results


def machine_call(vector: Vector) -> Document:
    world = World(vector.given, vector.controller_dialect)
    return perform_machine_step(world, vector.action)


def perform_machine_step(world: World, action: Document) -> Document:
    task = machine_task(action)
    if task is None:
        raise UnsupportedError(f"step {action['op']!r} is not known")
    world.reset()
    world.perform(task)
    out = report(world)
    if world.moved:
        return out | {"error": "ControllerMoved"}
    returns = action["op"] == "partition_state_change" or (action["op"] == "trigger_online" and "topic" not in action)
    if returns:
        failed = sorted({*out["failed_partitions"], *map(str, world.under_way.results.failed)})
        out |= {
            "election_results": election_results(world.under_way.results),
            "failed_partitions": failed,
            "failed_transitions": failed,
        }
    return out


def is_legal(vector: Vector) -> Document:
    origin, to = vector.given["from"], vector.action["to"]
    if vector.action["machine"] == "partition":
        return {"legal": PartitionState(origin) in VALID_PREVIOUS_PARTITION_STATES[PartitionState(to)]}
    cell = vector.controller_dialect.ineligible_from_offline
    return {"legal": ReplicaState(origin) in previous_replica_states(ReplicaState(to), ineligible_from_offline=cell)}


def initialise_partition_states(vector: Vector) -> Document:
    context = context_of(vector.given, vector.controller_dialect)
    context = context.with_partitions(initial_partition_entries(context))
    return {"partition_states": {str(p): x.state.value for p, x in context.partitions.items() if x.state}}


def select_trigger_online(vector: Vector) -> Document:
    context = context_of(vector.given, vector.controller_dialect)
    strategy = {"name": elections.OFFLINE.strategy.value, "allow_unclean": elections.OFFLINE.allow_unclean}
    return {"partitions": [str(p) for p in select_for_trigger_online(context)], "strategy": strategy}


# ---- context ---------------------------------------------------------------------------------------------------------


def _assignment_report(assignment: ReplicaAssignment) -> Document:
    return {
        "assignment": assignment_record(assignment),
        "is_being_reassigned": assignment.is_being_reassigned,
        "target_replicas": list(assignment.target),
        "origin_replicas": list(assignment.origin),
    }


def assignment_properties(vector: Vector) -> Document:
    return _assignment_report(assignment_of(vector.given["assignment"]))


def reassign_to(vector: Vector) -> Document:
    return _assignment_report(
        assignment_of(vector.given["assignment"]).reassign_to(brokers_of(vector.action["target"]))
    )


def remove_replica(vector: Vector) -> Document:
    return _assignment_report(assignment_of(vector.given["assignment"]).remove_replica(vector.action["replica"]))


def queries(vector: Vector) -> Document:
    context = context_of(vector.given, vector.controller_dialect)
    return {"results": [_query(context, query) for query in vector.action["queries"]]}


def _query(context: ControllerContext, query: Document) -> Any:
    name, topic = query["op"], query.get("topic", "")
    partition = partition_of(query["partition"]) if "partition" in query else TopicPartition("", 0)
    broker = BrokerId(query.get("broker", -1))
    simple: dict[str, Callable[[], Any]] = {
        "replicas": lambda: list(context.assignment(partition)),
        "full_assignment": lambda: assignment_record(context.full_assignment(partition)),
        "topic_replicas": lambda: {str(p): list(context.assignment(p)) for p in context.partitions_for_topic(topic)},
        "partitions_on_broker": lambda: _names(context.partitions_on_broker(broker)),
        "replicas_on_brokers": lambda: _names(context.replicas_on_brokers(brokers_of(query["brokers"]))),
        "replicas_for_topic": lambda: _names(context.replicas_for_topic(topic)),
        "partitions_for_topic": lambda: _names(context.partitions_for_topic(topic)),
        "live_broker_ids": lambda: list(context.live_broker_ids),
        "live_or_shutting_down_broker_ids": lambda: list(context.live_or_shutting_down_broker_ids),
        "leader_epoch": lambda: context.leader_epoch(partition),
        "partitions_with_leaders": lambda: _names(context.partitions_with_leaders()),
        "partitions_with_offline_leader": lambda: _names(context.partitions_with_offline_leader()),
        "partition_leaders_on_broker": lambda: _names(context.partition_leaders_on_broker(broker)),
        "is_topic_queued_for_deletion": lambda: context.is_topic_queued_for_deletion(topic),
        "is_topic_eligible_for_deletion": lambda: context.is_topic_eligible_for_deletion(topic),
        "is_replica_online": lambda: context.is_replica_online(
            broker, partition, include_shutting_down=query.get("include_shutting_down", False)
        ),
        "partitions_in_states": lambda: _names(
            context.partitions_in_states([PartitionState(s) for s in query["states"]], query.get("topic"))
        ),
        "replicas_in_state": lambda: _names(context.replicas_in_state(topic, ReplicaState(query["state"]))),
        "are_all_replicas_in_state": lambda: context.are_all_replicas_in_state(topic, ReplicaState(query["state"])),
        "is_any_replica_in_state": lambda: context.is_any_replica_in_state(topic, ReplicaState(query["state"])),
        "online_and_offline_replicas": lambda: dict(
            zip(("online", "offline"), map(_names, context.online_and_offline_replicas()), strict=True)
        ),
    }
    if name not in simple:
        raise UnsupportedError(f"query {name!r} is not known")
    return simple[name]()


def _names(things: Any) -> list[str]:
    return sorted(map(str, things))


# ---- request batch ---------------------------------------------------------------------------------------------------


class _BatchRun:
    """One batch through its steps, outside of any call."""

    def __init__(self, vector: Vector) -> None:
        self.context = context_of(vector.given, vector.controller_dialect)
        self.batch = EMPTY
        self.sent: list[e.BrokerRequest] = []

    def step(self, told: Document) -> Document:
        match told["op"]:
            case "new_batch":
                return {"error": "IllegalState"} if request_batch.is_pending(self.batch) else self._clear()
            case "clear":
                return self._clear()
            case "send_requests":
                return self._send(told["controller_epoch"])
            case _:
                self.batch = replace(self.batch, chunks=(*self.batch.chunks, (self._add(told),)))
                return {}

    def _clear(self) -> Document:
        self.batch = EMPTY
        return {}

    def _send(self, controller_epoch: int) -> Document:
        sent = request_batch.send(self.context, self.batch, controller_epoch)
        self.batch = sent.left
        self.sent.extend(sent.requests)
        return {"error": "IllegalState"} if sent.fault else {}

    def _add(self, told: Document) -> Any:
        brokers = brokers_of(told["brokers"])
        match told["op"]:
            case "add_leader_and_isr":
                return request_batch.leader_and_isr(
                    self.context,
                    brokers,
                    partition_of(told["partition"]),
                    leadership_of(told["leadership"]),
                    assignment_of(told["assignment"]),
                    is_new=told["is_new"],
                )
            case "add_stop_replica":
                return request_batch.stop_replica(
                    self.context, brokers, partition_of(told["partition"]), delete=told["delete_partition"]
                )
            case "add_update_metadata":
                return request_batch.update_metadata(self.context, brokers, map(partition_of, told["partitions"]))
        raise UnsupportedError(f"batch step {told['op']!r} is not known")


APIS = {"LeaderAndIsr": e.SendLeaderAndIsr, "UpdateMetadata": e.SendUpdateMetadata, "StopReplica": e.SendStopReplica}
EVENTS = {
    "LeaderAndIsrAnswered": "leader_and_isr_response",
    "UpdateMetadataAnswered": "update_metadata_response",
    "StopReplicaAnswered": "topic_deletion_stop_replica_response",
}


def batch(vector: Vector) -> Document:
    run = _BatchRun(vector)
    steps = [run.step(told) for told in vector.action["steps"]]
    requests = requests_of(run.sent)
    answers = vector.action.get("then", {}).get("answer_requests", [])
    to: dict[type, list[int]] = defaultdict(list)
    for request in run.sent:
        to[type(request)].append(request.broker)
    return {
        "requests": requests,
        "brokers_contacted": sorted(map(int, requests)),
        "request_count": {broker: len(sent) for broker, sent in requests.items()},
        "leader_and_isr_to": sorted(set(to[e.SendLeaderAndIsr])),
        "stop_replica_to": sorted(set(to[e.SendStopReplica])),
        "batch_empty_after": not request_batch.is_pending(run.batch),
        "after_steps": [{**told, **({"raises": "IllegalStateException"} if told else {})} for told in steps],
        "events": _describe_late(
            [event for told in (answers if isinstance(answers, list) else [answers]) for event in _events(run, told)]
        ),
    }


def _describe_late(events: list[Document]) -> list[Document]:
    """The recorder describes LeaderAndIsr answers once all are in, by the partitions of the one answered last."""
    answers = [event for event in events if event["type"] == "leader_and_isr_response"]
    for event in answers:
        event["partitions"] = answers[-1]["partitions"]
    return events


def _events(run: _BatchRun, answer: Document) -> list[Document]:
    errors = {partition_of(p): code for p, code in answer.get("partition_errors", {}).items()}
    found = []
    for request in run.sent:
        if request.broker != answer["broker"] or not isinstance(request, APIS[answer["api"]]):
            continue
        event = request_batch.event_of(run.context, request, answer.get("error", "NONE"), errors)
        if event is None:
            continue
        out: Document = {"type": EVENTS[type(event).__name__], "broker": event.broker, "error": event.error}
        partition_errors = getattr(event, "partition_errors", None)
        if partition_errors is not None:
            out["partitions"] = _names(partition_errors)
            out["partition_errors"] = {str(p): code for p, code in partition_errors.items() if code != "NONE"}
        found.append(out)
    return found


# ---- imbalance -------------------------------------------------------------------------------------------------------


def imbalance_report(context: ControllerContext) -> Document:
    return {
        str(broker): {"preferred": x.preferred, "imbalanced": len(x.imbalanced), "ratio": x.ratio}
        for broker, x in leader_imbalance(context).items()
    }


def compute_leader_imbalance(vector: Vector) -> Document:
    context = context_of(vector.given, vector.controller_dialect)
    imbalance = leader_imbalance(context)
    triggered = triggered_brokers(context, imbalance)
    elect = {str(b): [str(p) for p in imbalance[b].electable] for b in triggered if imbalance[b].electable}
    return {"imbalance": imbalance_report(context), "triggered_brokers": triggered, "elect_preferred": elect}


OPS: dict[str, Operation] = {
    "elect_leader": elect_leader,
    "run_strategy": run_strategy,
    "partition_state_change": machine_call,
    "replica_state_change": machine_call,
    "partition_machine_startup": machine_call,
    "replica_machine_startup": machine_call,
    "trigger_online": machine_call,
    "is_legal": is_legal,
    "initialise_partition_states": initialise_partition_states,
    "select_for_trigger_online": select_trigger_online,
    "assignment_properties": assignment_properties,
    "reassign_to": reassign_to,
    "remove_replica": remove_replica,
    "queries": queries,
    "batch": batch,
    "compute_leader_imbalance": compute_leader_imbalance,
}
