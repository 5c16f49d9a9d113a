"""Plans of leader moves: brokers or racks that shall lead nothing, or single partitions with their new leaders.

Always from a live read: an ISR of a snapshot is no promise. Making one writes nothing to a cluster.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId
from controller_core.plans.kinds import Origin, Refused, brokers_of_racks, choose_leader_moves, leader_moves_plan
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import LeaderMove
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.observe import observe, session
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.store import StoredPlan, store_plan


def plan_leader_moves(
    store: ObjectStore,
    cluster: str,
    *,
    zookeeper: ClusterAddress | ZooKeeper,
    brokers: Collection[BrokerId] = (),
    racks: Collection[str] = (),
    moves: Sequence[LeaderMove] = (),
    topics: Sequence[str] = (),
    now: datetime | None = None,
) -> StoredPlan | None:
    """The fewest moves after which these brokers, and those of these racks, lead nothing that another can lead.

    Args:
        store: where the plan goes.
        cluster: its name in the store.
        zookeeper: the cluster's address or a session.
        brokers: those that shall lead nothing.
        racks: those whose brokers shall lead nothing.
        moves: single partitions with their new leaders, instead of brokers and racks.
        topics: only topics that match one of these shell patterns; empty: all. For brokers and racks.
        now: the time, for the folder; None: the clock's.

    Returns:
        The stored plan, or None when there is nothing to move.

    Raises:
        RefusedError: a new leader is not in sync, or no controller is active; with the reasons.
        BadInputError: nothing was named, a broker, rack or partition does not exist, or there is no Kafka tree.
    """
    with session(zookeeper) as opened_session:
        observed = observe(opened_session)
    left_out: tuple[LeftOut, ...] = ()
    if moves:
        _require_known(cluster, observed, brokers, racks, moves)
    else:
        avoided = _avoided(cluster, observed, brokers, racks)
        chosen = choose_leader_moves(observed, avoided)
        moves = [move for move in chosen.moves if _matches(move.partition.topic, topics)]
        left_out = chosen.left_out
    made = leader_moves_plan(observed, Origin(cluster), moves, left_out=left_out)
    if isinstance(made, Refused):
        raise RefusedError(f"nothing planned for {cluster!r}: {listed(made.reasons)}")
    if not made.steps:
        return None
    day = (now or datetime.now(UTC)).astimezone(UTC).date()
    return store_plan(store, made, f"v1/cluster={cluster}/date={day}/live/")


def _avoided(
    cluster: str, observed: Observation, brokers: Collection[BrokerId], racks: Collection[str]
) -> frozenset[BrokerId]:
    unknown = sorted(set(brokers) - observed.brokers.keys())
    known_racks = {broker.rack for broker in observed.brokers.values()} - {None}
    strange = sorted(set(racks) - known_racks)
    if unknown or strange or not (brokers or racks):
        raise BadInputError(
            f"nothing planned for {cluster!r}: expected brokers of {sorted(observed.brokers)} or racks of "
            f"{sorted(map(str, known_racks))}, found brokers {sorted(brokers)}, racks {sorted(racks)}; name some of them"
        )
    return frozenset(brokers) | brokers_of_racks(observed, racks)


def _require_known(
    cluster: str,
    observed: Observation,
    brokers: Collection[BrokerId],
    racks: Collection[str],
    moves: Sequence[LeaderMove],
) -> None:
    unknown = sorted(str(move.partition) for move in moves if move.partition not in observed.states)
    if unknown or brokers or racks:
        problem = f"no partition {listed(unknown)}" if unknown else "brokers or racks beside single partitions"
        raise BadInputError(
            f"nothing planned for {cluster!r}: expected partitions with a leader, found {problem}; correct it"
        )


def _matches(topic: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)
