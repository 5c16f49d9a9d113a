"""What Kafka's controller does on an event: the state changes that the core predicts on a snapshot, in the words of `state-change.log`.

The snapshot's topics, configs and requests are loaded into a simulated cluster of the snapshot's brokers, which obey at once;
what the controller does of it by itself comes first, and is not shown. A follower joins an ISR only after a broker starts or
a reassignment is asked for. Source: docs/operations.md, "Explain".
"""

from collections.abc import Callable, Iterable
from typing import Final, assert_never

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import NodeExistsError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    Request,
)
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.simulated.zookeeper import MemoryServer
from controller_core.runtime.state_change_log import state_change_log
from controller_core.znodes import (
    DELETE_TOPICS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
    encode_delete_topic,
    encode_preferred_replica_election,
    encode_reassign_partitions,
    state_path,
    topic_path,
)
from kafka_maintenance.operations.errors import BadInputError, listed
from kafka_maintenance.operations.plans.seen import see
from kafka_maintenance.operations.snapshots.catalog import read_manifest, read_raw

Action = Callable[[SimulatedCluster], None]
"""What happens to the cluster; raises BadInputError where it cannot."""
_LOADED: Final = ("/brokers/topics", "/config/topics", "/config/brokers", DELETE_TOPICS)
_REQUESTS: Final = frozenset({REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION})


def explain(
    store: ObjectStore, cluster: str, action: Action, *, manifest: str | None = None, kafka_version: str | None = None
) -> tuple[str, ...]:
    """The lines that the controller would log after the action; empty where nothing changes its state.

    Args:
        store: of the snapshots.
        cluster: its name.
        action: what happens.
        manifest: address of the snapshot's manifest; None: the newest one.
        kafka_version: of the brokers; None: the oldest that explains what is seen.

    Raises:
        BadInputError: no snapshot, no registered broker, or the action does not fit the cluster.
    """
    seen = see(store, cluster, manifest=manifest, kafka_version=kafka_version)
    snapshot = seen.origin.snapshot
    assert snapshot is not None, "no live read was asked for"
    observed = seen.observed
    if not observed.brokers:
        raise BadInputError(
            f"nothing explained for {cluster!r}: snapshot {snapshot.manifest} has no registered broker, so nobody is the "
            "controller; choose another snapshot"
        )
    lines: list[str] = []
    world = SimulatedCluster(
        seen.dialect,
        broker_config={"auto.leader.rebalance.enable": "false", "delete.topic.enable": "true"},
        racks={broker.id: broker.rack for broker in observed.brokers.values() if broker.rack is not None},
        server=_tree(read_raw(store, read_manifest(store, snapshot.manifest)), observed.controller_epoch or 1),
        stepped=lambda _, step: lines.extend(state_change_log(step)),
    )
    world.followers_catch_up = False
    for broker in sorted(observed.brokers):
        world.start_broker(broker)
    active = observed.active_controller
    first = active.controller_id if active is not None and active.controller_id in world.nodes else min(world.nodes)
    while world.nodes[first].controller.advance():
        pass
    world.settle()
    lines.clear()
    action(world)
    world.settle()
    return tuple(lines)


def _tree(raw: pa.Table, epoch: int) -> MemoryServer:
    """The znodes from which a controller reads its context; the one that is elected gets the controller epoch `epoch`."""
    server = MemoryServer()
    session = server.session()
    session.create("/controller_epoch", str(epoch - 1).encode())
    for path, found, left_out in zip(*(raw[name].to_pylist() for name in ("path", "data", "left_out")), strict=True):
        if left_out is None and (path in _REQUESTS or path.startswith(_LOADED)):
            data = found or b""  # Kafka makes the paths above topics and configs with no data at all
            try:
                session.create(path, data, make_parents=True)
            except NodeExistsError:  # made as the parent of another
                session.set(path, data, ANY_VERSION)
    return server


# ------------------------------------------------------------------------------------------------------------ actions


def broker_fails(broker: int) -> Action:
    """A broker's session ends."""

    def action(world: SimulatedCluster) -> None:
        world.stop_broker(_running(world, broker))

    return action


def broker_starts(broker: int) -> Action:
    """A broker registers."""

    def action(world: SimulatedCluster) -> None:
        if broker in world.nodes:
            raise BadInputError(f"broker {broker} does not start: it is registered; --broker-fails lets it end")
        world.start_broker(BrokerId(broker))
        world.followers_catch_up = True

    return action


def broker_shuts_down(broker: int) -> Action:
    """A broker asks for a controlled shutdown, and ends when it is answered."""

    def action(world: SimulatedCluster) -> None:
        node = world.nodes[_running(world, broker)]
        world.ask_controlled_shutdown(BrokerId(broker), node.broker.epoch)
        world.settle()
        world.stop_broker(BrokerId(broker))

    return action


def elect_preferred(partitions: Iterable[TopicPartition]) -> Action:
    """The preferred leaders of these partitions are elected."""

    def action(world: SimulatedCluster) -> None:
        chosen = _known(world, partitions)
        world.tools.zookeeper.create(PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election(chosen))

    return action


def reassign(targets: dict[TopicPartition, tuple[BrokerId, ...]]) -> Action:
    """Partitions get other replicas."""

    def action(world: SimulatedCluster) -> None:
        _known(world, targets)
        world.tools.zookeeper.create(REASSIGN_PARTITIONS, encode_reassign_partitions(targets))
        world.followers_catch_up = True

    return action


def delete_topic(topic: str) -> Action:
    """A topic's deletion is asked for."""

    def action(world: SimulatedCluster) -> None:
        if not world.tools.exists(topic_path(topic)):
            raise BadInputError(f"topic {topic!r} is not deleted: the snapshot has none of that name")
        world.tools.zookeeper.create(delete_topic_path(topic), encode_delete_topic())

    return action


def carry_out(requests: Iterable[Request]) -> Action:
    """Each request of a plan is made when the one before is done.

    Raises:
        BadInputError: one of them is not a request to the controller, but takes its place or ends it.
    """
    actions = [_action_of(request) for request in requests]

    def action(world: SimulatedCluster) -> None:
        for each in actions:
            each(world)
            world.settle()

    return action


def _action_of(request: Request) -> Action:
    match request:
        case CreatePreferredReplicaElection(partitions=partitions):
            return elect_preferred(partitions)
        case CreateReassignPartitions(targets=targets):
            return reassign({each.partition: each.replicas for each in targets})
        case CreateDeleteTopic(topic=topic):
            return delete_topic(topic)
        case DeleteController() | MoveLeaders():
            raise BadInputError(
                f"plan not explained: expected requests for elections, moves and deletions, found {type(request).__name__}; its "
                "approver reads what it does with `plan show`"
            )
        case _:
            assert_never(request)


def _running(world: SimulatedCluster, broker: int) -> BrokerId:
    if broker not in world.nodes:
        raise BadInputError(
            f"broker {broker} does not end: it is not registered; expected one of {sorted(world.nodes)}"
        )
    return BrokerId(broker)


def _known(world: SimulatedCluster, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    found = list(partitions)
    missing = [str(each) for each in found if not world.tools.exists(state_path(each))]
    if missing:
        raise BadInputError(f"nothing explained: the snapshot has no partition {listed(missing)}")
    return found
