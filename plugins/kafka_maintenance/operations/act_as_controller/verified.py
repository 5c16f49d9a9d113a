"""Whether the cluster is as it should be after we were its controller: in ZooKeeper, and in every broker's metadata.

Source: docs/operations.md, "A few seconds as active controller".
"""

from collections.abc import Mapping
from time import monotonic, sleep
from typing import Final

from controller_core.adapters.brokers.access import BrokerAccess
from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.model.errors import BrokerError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.observation import Observation
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.observe import observe

VERIFY_TIMEOUT_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.25
ANSWER_TIMEOUT_S: Final = 5.0


def await_verified(
    zookeeper: ZooKeeper,
    epoch: int,
    leaders: Mapping[TopicPartition, BrokerId],
    access: BrokerAccess,
    *,
    timeout_s: float = VERIFY_TIMEOUT_S,
) -> tuple[str, ...]:
    """Waits until a broker is controller after `epoch` and everybody names these leaders; what is still otherwise when time is up.

    Args:
        zookeeper: a session on the cluster.
        epoch: our controller epoch.
        leaders: of the partitions that were moved.
        access: how brokers are reached.
        timeout_s: how long is waited.
    """
    deadline_s = monotonic() + timeout_s
    while True:
        observed = observe(zookeeper, partitions=leaders)
        problems = _in_zookeeper(observed, epoch, leaders) or _in_metadata(observed, leaders, access)
        if not problems or monotonic() >= deadline_s:
            return problems
        sleep(LOOK_AGAIN_S)


def _in_zookeeper(observed: Observation, epoch: int, leaders: Mapping[TopicPartition, BrokerId]) -> tuple[str, ...]:
    holder = observed.active_controller
    if holder is None or holder.controller_id not in observed.brokers:
        return ("/controller: expected a broker, found none",)
    if (observed.controller_epoch or 0) <= epoch:
        return (f"/controller_epoch: expected more than {epoch}, found {observed.controller_epoch}",)
    found = {partition: None if (s := observed.states.get(partition)) is None else s.leader for partition in leaders}
    return tuple(
        f"{partition}: expected leader {leader}, found {found[partition]} in ZooKeeper"
        for partition, leader in leaders.items()
        if found[partition] != leader
    )


def _in_metadata(
    observed: Observation, leaders: Mapping[TopicPartition, BrokerId], access: BrokerAccess
) -> tuple[str, ...]:
    problems: list[str] = []
    topics = sorted({partition.topic for partition in leaders})
    for broker in observed.brokers.values():
        try:
            connection = BrokerConnection(broker, access, timeout_s=ANSWER_TIMEOUT_S)
            try:
                believed = connection.metadata(topics, timeout_s=ANSWER_TIMEOUT_S)
            finally:
                connection.close()
        except BrokerError as error:
            problems.append(f"broker {broker.id}: {error}")
            continue
        problems += [
            f"{partition}: expected leader {leader}, broker {broker.id} names {named.leader if named else 'none'}"
            for partition, leader in leaders.items()
            if (named := believed.partitions.get(partition)) is None or named.leader != leader
        ]
    return tuple(problems)
