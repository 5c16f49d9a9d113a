"""Effects, refusals and contexts as text that an operator understands: one line per thing, no secrets of the code.

The same text stands in scenario files, in predictions and in what an approver reads. Requests to several brokers with
the same content share a line.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, assert_never

from controller_core.context.context import ControllerContext
from controller_core.messages.effects import (
    CreatePartitionStates,
    Effect,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WritePartitionStates,
    WriteReassignmentRequests,
    WriteTopicAssignment,
)
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment
from controller_core.model.refusals import Refusal

_VERBS: dict[str, str] = {
    "Read": "read",
    "List": "list",
    "Delete": "delete",
    "Write": "write",
    "Watch": "watch",
    "Unwatch": "unwatch",
    "Reply": "answer",
    "Register": "register",
    "Assign": "write",
    "Schedule": "schedule",
    "Cancel": "cancel",
    "Open": "connect",
    "Close": "close",
}
_WIDTH = 9
_HIDDEN = frozenset({"controller_epoch_version"})
_SHOWN_MAX = 40


def render(effects: Iterable[Effect]) -> str:
    """The effects in order, each as one line or a few; an empty text for none."""
    lines: list[str] = []
    pending: list[SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica] = []
    for effect in effects:
        if isinstance(effect, SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica):
            if pending and (type(pending[0]) is not type(effect) or pending[-1].broker >= effect.broker):
                lines += _requests(pending)
                pending = []
            pending.append(effect)
            continue
        lines += _requests(pending)
        pending = []
        lines += _effect(effect)
    return "\n".join([*lines, *_requests(pending)])


def render_refusals(refusals: Iterable[Refusal]) -> str:
    """Refusals, one line each; what Kafka's controller would do instead stands on a line of its own."""
    lines = []
    for refusal in refusals:
        lines.append(_line("refuse", f"{refusal.subject}: {refusal.kind.value}: {refusal.reason}"))
        if refusal.kafka:
            lines.append(_line("", f"Kafka: {refusal.kafka}"))
    return "\n".join(lines)


def render_context(context: ControllerContext) -> str:
    """What the controller believes: who is active, brokers, then every partition with its states."""
    active = context.active_controller_id
    lines = [
        f"controller {'-' if active is None else active}  epoch={context.epoch}",
        f"counters   offline={context.offline_partition_count} imbalanced={context.preferred_replica_imbalance_count}",
        f"brokers    {_ids(context.live_or_shutting_down_broker_ids)}",
    ]
    for name, found in (
        ("shutting down", ",".join(map(str, sorted(context.shutting_down)))),
        ("to be deleted", ",".join(sorted(context.topics_to_be_deleted))),
        ("ineligible", ",".join(sorted(context.topics_ineligible_for_deletion))),
        ("reassigning", ",".join(map(str, context.partitions_under_reassignment()))),
    ):
        if found:
            lines.append(f"{name}  {found}")
    for partition, entry in sorted(context.partitions.items()):
        state = "-" if entry.state is None else entry.state.value.removesuffix("Partition")
        text = "" if entry.leadership is None else f"  {leadership_text(entry.leadership)}"
        assigned = "" if entry.assignment is None else f"  {assignment_text(entry.assignment)}"
        replicas = " ".join(f"{b}:{s.value.removesuffix('Replica')}" for b, s in entry.replica_states)
        lines.append(f"{partition}  {state}{assigned}{text}  [{replicas}]")
    return "\n".join(lines)


def leadership_text(state: LeaderAndIsr, *, version: bool = True) -> str:
    """A leadership, such as `leader=1 isr=2,1 leader_epoch=5 version=8`."""
    recovering = " recovering" if state.recovery is LeaderRecoveryState.RECOVERING else ""
    text = f"leader={state.leader} isr={_ids(state.isr)} leader_epoch={state.leader_epoch}{recovering}"
    return f"{text} version={state.partition_epoch}" if version else text


def assignment_text(assignment: ReplicaAssignment) -> str:
    """An assignment, such as `replicas=1,2,3 adding=3 removing=1`."""
    parts = [f"replicas={_ids(assignment.replicas)}"]
    for name, brokers in (("adding", assignment.adding), ("removing", assignment.removing)):
        if brokers:
            parts.append(f"{name}={_ids(brokers)}")
    return " ".join(parts)


def _effect(effect: Effect) -> list[str]:
    match effect:
        case WritePartitionStates(states=states):
            return [
                _line("write", f"{p}/state  {leadership_text(s, version=False)}  if version={s.partition_epoch}")
                for p, s in states
            ]
        case CreatePartitionStates(states=states):
            return [_line("create", f"{p}/state  {leadership_text(s, version=False)}") for p, s in states]
        case WriteTopicAssignment(topic=topic, assignments=assignments):
            text = "; ".join(f"{number}: {assignment_text(each)}" for number, each in assignments)
            return [_line("write", f"topic {topic}  {text}")]
        case WriteReassignmentRequests(targets=targets):
            text = "; ".join(f"{p} to {_ids(target)}" for p, target in targets)
            return [_line("write", f"reassignment requests  {text}")]
        case _:
            return [_plain(effect)]


def _plain(effect: Any) -> str:
    name = type(effect).__name__
    prefix = next((known for known in _VERBS if name.startswith(known)), "")
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name[len(prefix) :]).strip()
    text = [
        f"{field.name}={_value(getattr(effect, field.name))}"
        for field in fields(effect)
        if field.name not in _HIDDEN and getattr(effect, field.name) not in ((), "", None)
    ]
    return _line(_VERBS.get(prefix, "do"), "  ".join([words, *text]).strip())


def _value(value: Any) -> str:
    if isinstance(value, Broker):
        return str(value.id)
    if isinstance(value, LeaderAndIsr):
        return leadership_text(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        shown = ",".join(map(_value, value[:_SHOWN_MAX]))
        return shown if len(value) <= _SHOWN_MAX else f"{shown},… ({len(value)})"
    return str(getattr(value, "value", value))


def _requests(requests: Sequence[SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica]) -> list[str]:
    """Lines of requests of one api: what is said of a partition, once for all brokers that hear it."""
    lines: dict[str, list[BrokerId]] = {}
    for request in requests:
        for text in _rows(request):
            lines.setdefault(text, []).append(request.broker)
    if not requests:
        return []
    api = type(requests[0]).__name__.removeprefix("Send")
    return [_line("send", f"{api} to {_ids(sorted(brokers))}  {text}") for text, brokers in lines.items()]


def _rows(request: SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica) -> list[str]:
    match request:
        case SendLeaderAndIsr(partition_states=rows):
            return [
                f"{p} {leadership_text(state)} {assignment_text(assigned)}{' new' if is_new else ''}"
                for p, state, assigned, is_new in rows
            ]
        case SendUpdateMetadata(partition_states=rows, live_brokers=live):
            text = [
                f"{row.partition} {leadership_text(row.leadership)}{_offline(row.offline_replicas)}" for row in rows
            ]
            return text or [f"live brokers {_ids([broker.id for broker in live])}"]
        case SendStopReplica():
            return [f"{p}{' and delete' if delete else ''}" for p, delete, _ in request.partition_states]
        case _:
            assert_never(request)


def _offline(brokers: tuple[BrokerId, ...]) -> str:
    return f" offline={_ids(brokers)}" if brokers else ""


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "-"


def _line(verb: str, text: str) -> str:
    return f"{verb:<{_WIDTH}}{text}".rstrip()
