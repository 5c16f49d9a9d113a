"""Whether a condition of a plan holds in what was observed, and what is wrong where it does not.

Source: docs/operations.md, "The plan" and "Applying".
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, assert_never

from controller_core.model.partitions import ReplicaAssignment
from controller_core.model.words import counted
from controller_core.plans.conditions import (
    AssignedTo,
    BrokerInRack,
    BrokersRegistered,
    CaughtUp,
    Condition,
    ControllerIs,
    ElectedAfter,
    HasLiveLeader,
    InSync,
    KafkaClusterIs,
    LedBy,
    NotificationsGone,
    NotificationsLinger,
    RequestAbandoned,
    RequestAbsent,
    RequestIdle,
    StateReadable,
    TopicCreatedAt,
    TopicGone,
    TopicIs,
    TopicNotInElection,
    TopicNotQueued,
    TopicNotReassigned,
    ZooKeeperControllerRules,
)
from controller_core.plans.observation import Observation
from controller_core.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS

_LISTED_MAX: Final = 10
_PLAN_AGAIN: Final = "the plan is stale: plan again, ask again"


class Unmet(NamedTuple):
    """A condition that does not hold: on what, what was expected, what was found, what to do now."""

    subject: str
    expected: str
    found: str
    advice: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}; {self.advice}"


def unmet(conditions: Iterable[Condition], observed: Observation) -> tuple[Unmet, ...]:
    """What does not hold of `conditions`, in their order; empty when everything holds."""
    return tuple(found for found in (check(condition, observed) for condition in conditions) if found is not None)


def check(condition: Condition, observed: Observation) -> Unmet | None:
    """None when `condition` holds in `observed`, else what is wrong. Never raises."""
    match condition:
        case (
            KafkaClusterIs()
            | ZooKeeperControllerRules()
            | ControllerIs()
            | ElectedAfter()
            | RequestAbsent()
            | RequestAbandoned()
            | RequestIdle()
        ):
            return _check_cluster(condition, observed)
        case BrokersRegistered() | BrokerInRack():
            return _check_brokers(condition, observed)
        case TopicIs() | TopicCreatedAt() | TopicGone() | TopicNotQueued():
            return _check_topic(condition, observed)
        case TopicNotReassigned() | TopicNotInElection():
            return _check_requests(condition, observed)
        case AssignedTo() | InSync() | CaughtUp() | LedBy() | HasLiveLeader() | StateReadable():
            return _check_partition(condition, observed)
        case NotificationsLinger() | NotificationsGone():
            return _check_notifications(condition, observed)
        case _:
            assert_never(condition)


def _check_cluster(
    condition: KafkaClusterIs
    | ZooKeeperControllerRules
    | ControllerIs
    | ElectedAfter
    | RequestAbsent
    | RequestAbandoned
    | RequestIdle,
    observed: Observation,
) -> Unmet | None:
    match condition:
        case KafkaClusterIs(cluster_id=expected):
            if observed.kafka_cluster_id == expected:
                return None
            advice = "this is another cluster or another chroot: check the connection, nothing was written"
            return Unmet("/cluster/id", repr(expected), repr(observed.kafka_cluster_id), advice)
        case ZooKeeperControllerRules():
            return _no_zookeeper_controller(observed)
        case ControllerIs():
            return _another_controller(condition, observed)
        case ElectedAfter(epoch=epoch):
            broken = _no_zookeeper_controller(observed)
            if broken is not None:
                return broken
            if observed.controller_epoch is not None and observed.controller_epoch > epoch:
                return None
            advice = "no election has finished; look at the brokers' controller logs"
            return Unmet("/controller_epoch", f"more than {epoch}", str(observed.controller_epoch), advice)
        case RequestAbsent(path=path):
            if path not in observed.pending:
                return None
            return Unmet(path, "no znode", observed.pending[path], _advice_beside(path, observed))
        case RequestAbandoned(path=path):
            if path in observed.abandoned_requests:
                return None
            found = observed.pending.get(path, "no znode")
            return Unmet(path, "a request that names only partitions that are gone", found, "nothing to do any more")
        case RequestIdle(path=path, czxid=czxid):
            identity = observed.request_identities.get(path)
            if identity is not None and identity.czxid == czxid and path in observed.idle_requests:
                return None
            found = observed.pending.get(path, "no znode")
            expected = f"the request created at zxid {czxid:#x}, not begun"
            return Unmet(path, expected, found, "the controller has taken it up: nothing to do any more")
        case _:
            assert_never(condition)


def _check_brokers(condition: BrokersRegistered | BrokerInRack, observed: Observation) -> Unmet | None:
    match condition:
        case BrokersRegistered(brokers=brokers):
            missing = sorted(set(brokers) - observed.brokers.keys())
            if not missing:
                return None
            expected = f"brokers {_listed(sorted(set(brokers)))}"
            return Unmet("/brokers/ids", expected, f"no broker {_listed(missing)}", "start them, or plan again")
        case BrokerInRack(broker=broker, rack=rack):
            registered = observed.brokers.get(broker)
            if registered is None or registered.rack == rack:
                return None
            expected = f"rack {rack!r}, by which the plan places replicas"
            where = "no rack" if registered.rack is None else f"rack {registered.rack!r}"
            return Unmet(
                f"/brokers/ids/{broker}", expected, where, "set broker.rack back and restart it, or plan again"
            )
        case _:
            assert_never(condition)


def _no_zookeeper_controller(observed: Observation) -> Unmet | None:
    expected = "an active controller in ZooKeeper mode"
    if (sign := observed.kraft_sign) is not None:
        advice = (
            "the cluster is run by KRaft or on its way there: what is written to ZooKeeper is ignored, reverted, or lost; refused until a way back "
            "has ended with /migration and the claimed /controller deleted, and for good once the quorum is finalised: use Kafka's own tools"
        )
        return Unmet("/controller", expected, sign, advice)
    if observed.active_controller is None:
        advice = "nobody would act on a request: wait for an election, look at the brokers' logs"
        return Unmet("/controller", expected, "no znode", advice)
    if observed.active_controller.controller_id not in observed.brokers:
        found = f"id {observed.active_controller.controller_id}, which is not registered"
        return Unmet("/controller", expected, found, "a tool or a lost session holds the znode: wait for an election")
    return None


def _another_controller(condition: ControllerIs, observed: Observation) -> Unmet | None:
    active_controller = observed.active_controller
    expected = f"broker {condition.controller_id} since zxid {condition.czxid:#x}, epoch {condition.epoch}"
    found = (
        "no znode"
        if active_controller is None
        else f"broker {active_controller.controller_id} since zxid {active_controller.czxid:#x}, epoch {observed.controller_epoch}"
    )
    same = (
        active_controller is not None
        and (active_controller.controller_id, active_controller.czxid) == (condition.controller_id, condition.czxid)
        and observed.controller_epoch == condition.epoch
        and observed.controller_epoch_version == condition.epoch_version
    )
    return (
        None if same else Unmet("/controller", expected, found, "another controller was elected meanwhile: plan again")
    )


def _check_topic(
    condition: TopicIs | TopicCreatedAt | TopicGone | TopicNotQueued, observed: Observation
) -> Unmet | None:
    name = f"topic {condition.topic}"
    identity = observed.topics.get(condition.topic)
    match condition:
        case TopicCreatedAt(czxid=czxid):
            if identity is not None and identity.czxid == czxid:
                return None
            found = "no such topic" if identity is None else f"one created at zxid {identity.czxid:#x}"
            return Unmet(name, f"the topic created at zxid {czxid:#x}", found, _PLAN_AGAIN)
        case TopicIs(czxid=czxid, partition_count=count):
            expected = f"the topic created at zxid {czxid:#x} with {counted(count, 'partition')}"
            if identity is None:
                return Unmet(name, expected, "no such topic", _PLAN_AGAIN)
            if (identity.czxid, identity.partition_count) == (czxid, count):
                return None
            found = f"one created at zxid {identity.czxid:#x} with {counted(identity.partition_count, 'partition')}"
            return Unmet(name, expected, found, _PLAN_AGAIN)
        case TopicGone(czxid=czxid):
            if identity is not None and identity.czxid == czxid:
                if condition.topic in observed.queued_topics:
                    advice = "a replica may be on a dead broker: ask for its eligibility again"
                    return Unmet(name, "no such topic", "the topic, queued for deletion", advice)
                advice = "nobody asked, or Kafka dropped the request: look at delete.topic.enable of the brokers"
                return Unmet(name, "no such topic", "the topic, not queued for deletion", advice)
            return None
        case TopicNotQueued():
            if condition.topic not in observed.queued_topics:
                return None
            return Unmet(name, "no request to delete it", "one in /admin/delete_topics", _PLAN_AGAIN)
        case _:
            assert_never(condition)


def _advice_beside(path: str, observed: Observation) -> str:
    """What to do about the request that stands at `path`."""
    if path in observed.abandoned_requests:
        return (
            "it names only partitions that do not exist: the active controller removes it at once or never; if it "
            "stays, clear it by a forced re-election (plan drain)"
        )
    advice = "another tool's request is pending or stuck: let the controller finish it, then run again"
    if path == REASSIGN_PARTITIONS and path in observed.idle_requests and observed.shows_moves:
        advice += (
            "; nothing of it is begun, as of one for a topic that was deleted and created again: if it stays, only the next "
            "controller takes it up (plan drain)"
        )
    return advice


def _check_requests(condition: TopicNotReassigned | TopicNotInElection, observed: Observation) -> Unmet | None:
    name = f"topic {condition.topic}"
    if condition.topic not in observed.topics:
        return Unmet(name, "a topic that can be read", "none", _PLAN_AGAIN)
    match condition:
        case TopicNotReassigned(topic=topic):
            expected, path = "no reassignment of it", REASSIGN_PARTITIONS
            moving = [each for each, lists in observed.assignments.items() if lists.is_being_reassigned]
            asked = frozenset(observed.reassign_requests)
            listed = [f"{each}, which adds or removes replicas" for each in sorted(moving) if each.topic == topic]
        case TopicNotInElection(topic=topic):
            expected, path, listed, asked = (
                "no election of it",
                PREFERRED_REPLICA_ELECTION,
                [],
                observed.election_requests,
            )
        case _:
            assert_never(condition)
    if (broken := observed.unreadable.get(path)) is not None:
        advice = "nobody knows which topics it names: look at it, and have it removed"
        return Unmet(name, expected, f"{path}, which cannot be read ({broken})", advice)
    found = listed + [f"{each} in {path}" for each in sorted(asked) if each.topic == topic]
    return Unmet(name, expected, _listed(found), "wait until it is done, plan again") if found else None


def _check_partition(
    condition: AssignedTo | InSync | CaughtUp | LedBy | HasLiveLeader | StateReadable, observed: Observation
) -> Unmet | None:
    name = str(condition.partition)
    match condition:
        case AssignedTo():
            expected = f"replicas {_listed(condition.replicas)}, {_moving(condition.assignment)}"
            assignment = observed.assignments.get(condition.partition)
            if assignment is None:
                return Unmet(name, expected, "no such partition", _PLAN_AGAIN)
            if assignment == condition.assignment:
                return None
            if assignment.is_being_reassigned:
                return Unmet(name, expected, _moving(assignment), "wait until it is done, plan again")
            return Unmet(name, expected, f"replicas {_listed(assignment.replicas)}", _PLAN_AGAIN)
        case StateReadable():
            topic_is_gone = condition.partition not in observed.assignments
            if topic_is_gone or condition.partition in observed.states:
                return None
            return Unmet(name, "a readable state", "none", "look at the controller's log")
        case InSync() | CaughtUp() | LedBy() | HasLiveLeader():
            return _check_state(condition, observed)
        case _:
            assert_never(condition)


def _check_state(condition: InSync | CaughtUp | LedBy | HasLiveLeader, observed: Observation) -> Unmet | None:
    name = str(condition.partition)
    state = observed.states.get(condition.partition)
    if state is None:
        return Unmet(name, "a leader and an ISR", "no state", _PLAN_AGAIN)
    match condition:
        case InSync(leader=leader, isr=isr):
            if state.leader == leader and frozenset(state.isr) == frozenset(isr):
                return None
            expected = f"leader {leader}, ISR {_listed(isr)}"
            return Unmet(name, expected, f"leader {state.leader}, ISR {_listed(state.isr)}", _PLAN_AGAIN)
        case CaughtUp(replicas=replicas):
            if frozenset(replicas) <= frozenset(state.isr):
                return None
            expected = f"{_listed(replicas)} in the ISR"
            return Unmet(name, expected, f"ISR {_listed(state.isr)}", "look at the brokers that are missing")
        case LedBy(leader=leader):
            if state.leader == leader:
                return None
            advice = "the election did not succeed: look at the ISR and at the controller's log"
            return Unmet(name, f"leader {leader}", f"leader {state.leader}, ISR {_listed(state.isr)}", advice)
        case HasLiveLeader():
            if state.leader in observed.brokers:
                return None
            expected, found = "a leader that is registered", f"leader {state.leader}, ISR {_listed(state.isr)}"
            return Unmet(name, expected, found, "bring a broker of the ISR back first")
        case _:
            assert_never(condition)


def _check_notifications(condition: NotificationsLinger | NotificationsGone, observed: Observation) -> Unmet | None:
    there = {notification.name for notification in observed.notifications}
    still = [name for name in condition.names if name in there]
    match condition:
        case NotificationsLinger():
            if still:
                return None
            expected = f"one of {_listed(condition.names)}"
            return Unmet("/isr_change_notification", expected, "none", "the controller has drained them: nothing to do")
        case NotificationsGone():
            if not still:
                return None
            advice = "the new controller has not cleaned up: look at its log"
            return Unmet("/isr_change_notification", "none of the drained ones", _listed(still), advice)
        case _:
            assert_never(condition)


def _moving(assignment: ReplicaAssignment) -> str:
    if not assignment.is_being_reassigned:
        return "not being reassigned"
    return f"a reassignment: adding {_listed(assignment.adding)}, removing {_listed(assignment.removing)}"


def _listed(values: Iterable[object]) -> str:
    texts = [str(value) for value in values]
    if len(texts) > _LISTED_MAX:
        return f"[{', '.join(texts[:_LISTED_MAX])}, … {len(texts)} in all]"
    return f"[{', '.join(texts)}]"
