"""Everything that can be done before we are active: connections, versions, rights, the whole cluster as it is.

Nothing here changes anything. Source: docs/operations.md, "A few seconds as active controller".
"""

from contextlib import suppress
from queue import Empty, Queue
from time import monotonic
from typing import Final

from controller_core.adapters.brokers.channels import BrokerAnswered, TcpChannels
from controller_core.messages.effects import SendUpdateMetadata
from controller_core.model.partitions import BrokerId
from controller_core.plans.observation import Observation
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.wire.messages import UPDATE_METADATA
from controller_core.znodes import CONTROLLER
from kafka_maintenance.operations.act_as_controller.refusals import CONTROLLER_ID, Prepared
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH

PROBE_TIMEOUT_S: Final = 10.0


def prepare(
    zookeeper: ZooKeeper,
    observed: Observation,
    channels: TcpChannels,
    answers: "Queue[BrokerAnswered]",
    *,
    move_count: int,
    timeout_s: float = PROBE_TIMEOUT_S,
) -> Prepared:
    """Connects to every broker and asks whether it would obey us.

    Args:
        zookeeper: a session that holds the cluster's lock, whose age tells ZooKeeper's time.
        observed: the whole cluster.
        channels: to be opened here.
        answers: where the channels put what brokers answer.
        move_count: leaders that the plan moves.
        timeout_s: how long the brokers' answers are waited for.
    """
    channels.open(observed.brokers.values())
    for broker in observed.brokers:
        channels.send(_harmless(observed, broker))
    rights: dict[BrokerId, str] = {}
    deadline_s = monotonic() + timeout_s
    with suppress(Empty):
        while len(rights) < len(observed.brokers):
            answered = answers.get(timeout=max(0.001, deadline_s - monotonic()))
            rights[answered.request.broker] = f"{answered.error} {answered.detail}".strip()
    return Prepared(
        observed=observed,
        controller_age_ms=_controller_age_ms(zookeeper),
        versions=channels.versions(),
        rights=rights,
        move_count=move_count,
    )


def _harmless(observed: Observation, broker: BrokerId) -> SendUpdateMetadata:
    """UpdateMetadata of controller epoch 0, without partitions: stale for every broker, but refused otherwise without ClusterAction.

    It names all live brokers, for one that has never heard of a controller and takes it.
    """
    return SendUpdateMetadata(
        broker=broker,
        broker_epoch=observed.brokers[broker].epoch,
        version=UPDATE_METADATA.newest,
        controller_id=CONTROLLER_ID,
        controller_epoch=0,
        partition_states=(),
        live_brokers=tuple(observed.brokers[each] for each in sorted(observed.brokers)),
        topic_ids=(),
    )


def _controller_age_ms(zookeeper: ZooKeeper) -> int | None:
    """How old `/controller` was when we took the lock, by ZooKeeper's clock alone."""
    controller, lock = zookeeper.exists(CONTROLLER), zookeeper.exists(LOCK_PATH)
    return None if controller is None or lock is None else lock.ctime - controller.ctime
