"""Histories that Kafka's whole controller lived through, and what the core does in the same ones.

`histories/<version>.jsonl.xz` has one history a line: its name, Kafka's version, protocol, config and steps. A step tells

* `znodes`: what others did to the tree since the last step, in order: path, data (null: deleted), and the epoch of a broker that registers;
  `meanwhile`: znodes that somebody creates as soon as the controller deletes the one that is there;
* `event`, name and fields of a class of `messages/events.py`; or `answer`: broker, api and partitions of the request that is answered, and the errors;
* `then`: which of Kafka's facts are others now. Of a table (states, the tree, …) the entries that changed, null for one that is gone;
* `sent`, `replies`: the requests of the event, each with its brokers and their epochs, and what askers were told.
"""

from __future__ import annotations

import functools
import json
import lzma
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from controller_core.context.context import ControllerContext
from controller_core.engine.request_batch import event_of
from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.model.config import config_from
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId, LeaderAndIsr, LeaderRecoveryState
from controller_core.model.states import PartitionState, ReplicaState
from controller_core.ports.zookeeper import ANY_VERSION, WatchEvent, WatchEventKind, ZnodeStat
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.simulated.cluster import SimulatedController
from controller_core.runtime.simulated.zookeeper import Applied, MemoryServer, MemoryZooKeeper
from controller_core.znodes import CONTROLLER_EPOCH, REASSIGN_PARTITIONS, TOPICS
from tests.conformance.vector import brokers_of, partition_of

HISTORIES = Path(__file__).parent / "histories"
Facts = dict[str, Any]
EMPTY_TREE = (
    "/brokers/ids", TOPICS, "/admin/delete_topics", "/isr_change_notification", "/log_dir_event_notification", "/config/topics",
)  # fmt: skip
HAVE_VERSIONS = (TOPICS, CONTROLLER_EPOCH, REASSIGN_PARTITIONS)
NO_ID = "A" * 22


def histories(version: str) -> Iterator[dict[str, Any]]:
    with lzma.open(HISTORIES / f"{version}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def first_difference(history: Mapping[str, Any]) -> str:
    """The first step after which the core shows other facts than Kafka did; empty where there is none."""
    world = World(history)
    expected = world.facts()
    for number, step in enumerate(history["steps"]):
        world.live(step)
        for table, changed in step["then"].items():
            expected[table] = _changed(expected[table], changed) if isinstance(changed, dict) else changed
        expected |= {"sent": step.get("sent", []), "replies": step.get("replies", [])}
        found = world.facts()
        differ = [name for name in expected if found[name] != expected[name] and name not in history["not_compared"]]
        if differ:
            what = step.get("event") or step["answer"]
            told = "; ".join(_apart(name, expected[name], found[name]) for name in differ)
            return f"{history['name']}, step {number}, {what}: {told}"
    return ""


def _changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> Facts:
    return {name: value for name, value in {**table, **changes}.items() if value is not None}


def _apart(name: str, kafkas: Any, found: Any) -> str:
    if isinstance(kafkas, dict):
        other = [key for key in {**kafkas, **found} if kafkas.get(key) != found.get(key)]
        kafkas, found = {key: kafkas.get(key) for key in other}, {key: found.get(key) for key in other}
    elif name == "sent":
        kafkas, found = [each for each in kafkas if each not in found], [each for each in found if each not in kafkas]
    return f"{name}: Kafka {kafkas}, the core {found}"


class DeafSession(MemoryZooKeeper):
    """Hears of no change: when an event comes is the history's to say. What a watch finds when it is set is heard of."""

    def hear(self, changes: Iterable[WatchEvent]) -> None:
        """Nothing."""


class World:
    """A tree in memory, and the core's controller of broker 0 on it."""

    def __init__(self, history: Mapping[str, Any]) -> None:
        dialect = dialect_for(history["version"], history["protocol"])
        config = config_from(history["config"], controller_id=BrokerId(0), dialect=dialect)
        self.server = MemoryServer()
        self.others = self.server.session()
        for path in EMPTY_TREE:
            self.others.create(path, make_parents=True)
        self.meanwhile: dict[str, bytes] = {}
        self.server.listen(self._applied)
        self.sent: list[e.BrokerRequest] = []
        self.replies: list[e.Reply] = []
        kafka = KafkaZk(DeafSession(self.server), formats_of(dialect))
        self.controller = SimulatedController(
            BrokerId(0), config, dialect, kafka, lambda: NO_ID, sent=lambda _, request: self.sent.append(request)
        )

    def live(self, step: Mapping[str, Any]) -> None:
        """What others did, then what happened to the controller."""
        self.sent, self.replies = [], []
        for path, data, *epoch in step.get("znodes", []):
            self._edit(path, data, epoch)
        self.meanwhile |= {path: data.encode() for path, data in step.get("meanwhile", {}).items()}
        command = event_told(*step["event"]) if "event" in step else self._answered(*step["answer"])
        if command is None:
            return
        controller = self.controller
        controller.queue.append(command)
        while controller.is_busy:
            if controller.todo and isinstance(controller.todo[0], e.Reply):
                self.replies.append(controller.todo[0])
            controller.advance()
        controller.replies.clear()

    def _edit(self, path: str, data: str | None, epoch: list[int]) -> None:
        if data is None:
            self.others.delete(path, ANY_VERSION)
        elif self.others.exists(path) is None:
            if epoch:  # a broker's epoch is the zxid of its registration
                self.server.zxid = epoch[0] - 1
            self.others.create(path, data.encode())
        else:
            self.others.set(path, data.encode(), ANY_VERSION)

    def _applied(self, applied: Applied) -> None:
        for change in applied.changes:
            if change.kind is WatchEventKind.DELETED and change.path in self.meanwhile:
                self.others.create(change.path, self.meanwhile.pop(change.path))

    def _answered(
        self, broker: BrokerId, api: str, partitions: list[str], error: str, errors: Mapping[str, str]
    ) -> events.Event | None:
        """The broker answers the oldest request of that api for those partitions."""
        waiting = self.controller.channels.get(broker, [])
        asked = [
            r
            for r in waiting
            if api_of(r) == api and sorted(str(row.partition) for row in r.partition_states) == partitions
        ]
        if not asked:
            return None
        waiting.remove(asked[0])
        told = {partition_of(name): told for name, told in errors.items()}
        return event_of(self.controller.context, asked[0], error, told)

    def facts(self) -> Facts:
        """What is compared, by name."""
        channels = {str(broker): len(requests) for broker, requests in self.controller.channels.items() if requests}
        return {
            **facts_of(self.controller.context),
            "waiting": channels,
            "tree": {path: content(path, *self.others.get(path)) for path in self.server.snapshot() if path != "/"},
            "sent": grouped((request.broker, request.broker_epoch, request_record(request)) for request in self.sent),
            "replies": [reply_record(reply) for reply in self.replies],
        }


# ---- what happens ----------------------------------------------------------------------------------------------------


def event_told(name: str, told: Mapping[str, Any]) -> events.Event:
    """The event of that class, with the fields as they are told."""
    event: events.Event = getattr(events, name)(
        **{field: _FIELDS.get(field, _same)(value) for field, value in told.items()}
    )
    return event


def _same(value: Any) -> Any:
    return value


def _change_of(
    partition: str, leader_epoch: int, partition_epoch: int, isr: list[int], recovery: int
) -> events.IsrChange:
    return events.IsrChange(
        partition_of(partition), leader_epoch, partition_epoch, brokers_of(isr), LeaderRecoveryState(recovery)
    )


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "partition": partition_of,
    "partitions": lambda told: tuple(map(partition_of, told)),
    "targets": lambda told: tuple((partition_of(p), None if to is None else brokers_of(to)) for p, to in told.items()),
    "changes": lambda told: tuple(_change_of(*change) for change in told),
}


# ---- facts -----------------------------------------------------------------------------------------------------------


def facts_of(context: ControllerContext) -> Facts:
    """What a controller knows."""
    partitions = {str(p): entry for p, entry in context.partitions.items()}
    return {
        "active": context.is_active,
        "epoch": context.epoch,
        "epoch_zk": context.epoch_zk_version,
        "partition_states": {
            p: x.state.value for p, x in partitions.items() if x.state and x.state is not PartitionState.NON_EXISTENT
        },
        "replica_states": {
            f"{p}-{broker}": state.value
            for p, x in partitions.items()
            for broker, state in x.replica_states
            if state is not ReplicaState.NON_EXISTENT
        },
        "assignments": {
            p: [list(ids) for ids in x.assignment] for p, x in partitions.items() if x.assignment is not None
        },
        "leadership": {p: leadership_record(x.leadership) for p, x in partitions.items() if x.leadership is not None},
        "all_topics": sorted(context.all_topics()),
        "to_delete": sorted(context.topics_to_be_deleted),
        "started": sorted(context.topics_with_deletion_started),
        "ineligible": sorted(context.topics_ineligible_for_deletion),
        "reassigned": sorted(map(str, context.partitions_being_reassigned)),
        "shutting_down": sorted(context.shutting_down),
        "brokers": {str(broker): entry.epoch for broker, entry in context.brokers.items()},
        "offline_dirs": {str(broker): sorted(map(str, ps)) for broker, ps in context.offline_dirs.items() if ps},
        "offline": context.offline_partition_count,
        "imbalance": context.preferred_replica_imbalance_count,
    }


def leadership_record(state: LeaderAndIsr) -> list[Any]:
    epochs = (state.partition_epoch, state.controller_epoch)
    return [state.leader, state.leader_epoch, list(state.isr), int(state.recovery), *epochs]


def _recovered(state: LeaderAndIsr) -> LeaderAndIsr:
    """As a request says it that has no field for the recovery."""
    return state._replace(recovery=LeaderRecoveryState.RECOVERED)


@functools.lru_cache(maxsize=4096)
def _parsed(path: str, data: bytes) -> Any:
    """A znode's content, without the time and the order of a map."""
    try:
        found = json.loads(data)
    except ValueError:
        return data.decode()
    if path == REASSIGN_PARTITIONS:
        found["partitions"].sort(key=lambda row: (row["topic"], row["partition"]))
    elif path == "/controller":
        del found["timestamp"]
    return found


def content(path: str, data: bytes, stat: ZnodeStat) -> list[Any]:
    """Content of a znode, and its version where that decides something."""
    return [_parsed(path, data), stat.version if path.startswith(HAVE_VERSIONS) else 0]


def api_of(request: e.BrokerRequest) -> str:
    return type(request).__name__.removeprefix("Send")


def grouped(sent: Iterable[tuple[int, int, Facts]]) -> list[list[Any]]:
    """Requests with the brokers that get them and the epochs that these are told, in an order of their own."""
    told: dict[str, list[list[int]]] = defaultdict(list)
    records = {}
    for broker, epoch, record in sent:
        text = json.dumps(record, sort_keys=True)
        records[text] = record
        told[text].append([broker, epoch] if record["version"] >= _EPOCHS_SINCE[record["api"]] else [broker])
    return [[records[text], sorted(told[text])] for text in sorted(told)]


_EPOCHS_SINCE = {"LeaderAndIsr": 2, "UpdateMetadata": 5, "StopReplica": 1}


def request_record(request: e.BrokerRequest) -> Facts:
    """A request as the version that is sent carries it, without the epoch of its broker."""
    match request:
        case e.SendLeaderAndIsr():
            told = _leader_and_isr(request)
        case e.SendUpdateMetadata():
            rows = {
                str(row.partition): [
                    *leadership_record(_recovered(row.leadership)),
                    list(row.replicas),
                    list(row.offline_replicas),
                ]
                for row in request.partition_states
            }
            live = {
                str(broker.id): [*(f"{x.listener}:{x.host}:{x.port}" for x in broker.endpoints), broker.rack]
                for broker in request.live_brokers
            }
            told = {"rows": rows, "live": live}
        case _:
            with_epoch = request.version >= 3
            rows = {
                str(row.partition): [row.delete_partition, row.leader_epoch if with_epoch else None]
                for row in request.partition_states
            }
            told = {"rows": rows}
    controller = [request.controller_id, request.controller_epoch]
    return {"api": api_of(request), "version": request.version, "controller": controller, **told}


def _leader_and_isr(request: e.SendLeaderAndIsr) -> Facts:
    ids, version = dict(request.topic_ids), request.version
    rows = {}
    for row in request.partition_states:
        replicas, adding, removing = map(list, row.assignment)
        rows[str(row.partition)] = [
            *leadership_record(row.leadership if version >= 6 else _recovered(row.leadership)),
            *(replicas, [adding, removing] if version >= 3 else None, row.is_new),
            (ids.get(row.partition.topic) or NO_ID) if version >= 5 else None,
        ]
    return {"rows": rows, "leaders": sorted(broker.id for broker in request.live_leaders)}


def reply_record(reply: e.Reply) -> Facts:
    """What the asker was told: an error of the whole, or the result."""
    asked = type(reply).__name__.removeprefix("Reply")
    if reply.error:
        return {asked: reply.error}
    match reply:
        case e.ReplyControlledShutdown():
            return {asked: sorted(map(str, reply.partitions_still_led))}
        case e.ReplyReassignmentList():
            return {asked: {str(p): [list(ids) for ids in assignment] for p, assignment in reply.listed}}
        case e.ReplyAlterPartition():
            accepted = {str(p): leadership_record(state)[:5] for p, state in reply.accepted}
            return {asked: accepted | {str(p): error for p, error in reply.errors}}
        case _:
            return {asked: {str(p): error for p, error in reply.errors}}
