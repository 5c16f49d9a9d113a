"""In which phase of the migration to KRaft a cluster is, as its tree shows it.

Source: Kafka 3.9 `KRaftMigrationDriver`, `ZkMigrationLeadershipState`; docs/kraft.md, "Phases", which says how each was measured.
"""

from enum import Enum
from typing import NamedTuple

from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes import decode_controller, decode_migration
from spark_jobs.kraft.tree import Tree

_NONE = -1


class PhaseId(Enum):
    """P0 to P6, and the two states that belong to no healthy migration."""

    ZOOKEEPER = "P0"
    QUORUM_STARTED = "P1/P2"
    HYBRID = "P3"
    PARTLY_KRAFT = "P4"
    ALL_KRAFT = "P5/P6"
    CLAIMED = "claimed"
    LEFT_OVER = "left over"


class Phase(NamedTuple):
    """`text` says what was found; `advice` what that means for whoever works on the cluster; `may_write`: whether our own tools may."""

    id: PhaseId
    text: str
    advice: str
    may_write: bool


def phase_of(tree: Tree) -> Phase:
    """The phase that the tree shows. A single snapshot cannot tell P1 from P2, nor dual write (P5) from a finalised migration (P6)."""
    claimed = _kraft_epoch(tree) > _NONE
    if "/migration" not in tree:
        if claimed:
            text = "/controller belongs to a KRaft controller, and there is no /migration"
            return Phase(
                PhaseId.LEFT_OVER,
                text,
                "a way back was not finished: delete /controller after the quorum is stopped",
                False,
            )
        return Phase(
            PhaseId.ZOOKEEPER, "no /migration, and the controller is a broker", "nothing of a migration has begun", True
        )
    offset = _offset(tree)
    if not claimed:
        return _unclaimed(offset)
    if offset is None or offset == _NONE:
        text = f"/controller is claimed by a KRaft controller, /migration says offset {offset}"
        return Phase(
            PhaseId.CLAIMED,
            text,
            "the copy runs or has died: where this lasts a minute there is no working controller, go back",
            False,
        )
    missing = sorted(set(tree.replica_brokers) - tree.registered)
    return _copied(offset, missing, any_registered=bool(tree.registered))


def _unclaimed(offset: int | None) -> Phase:
    if offset == _NONE:
        text = "/migration says offset -1, the controller is a broker"
        advice = "a quorum was started; brokers are rolled into migration mode: write nothing to ZooKeeper until the migration has ended"
        return Phase(PhaseId.QUORUM_STARTED, text, advice, False)
    shown = "has no content" if offset is None else f"says offset {offset}"
    text = f"/migration {shown}, and the controller is a broker"
    advice = "it is left over: a fresh quorum would take the copy for done and delete every topic; delete it before any quorum is started"
    return Phase(PhaseId.LEFT_OVER, text, advice, False)


def _copied(offset: int, missing: list[int], *, any_registered: bool) -> Phase:
    copied = f"the metadata were copied (offset {offset})"
    if not any_registered:
        advice = "the way back ends when the quorum is finalised; brokers that are not in /brokers/ids are no outage"
        return Phase(PhaseId.ALL_KRAFT, f"{copied}, no broker is in /brokers/ids", advice, False)
    if missing:
        advice = "brokers that are not in /brokers/ids may run in KRaft mode: that is no outage"
        return Phase(PhaseId.PARTLY_KRAFT, f"{copied}, brokers {missing} are not in /brokers/ids", advice, False)
    return Phase(
        PhaseId.HYBRID,
        f"{copied}, all brokers are in /brokers/ids",
        "nothing written to ZooKeeper counts any more",
        False,
    )


def _kraft_epoch(tree: Tree) -> int:
    if tree.data("/controller") is None:
        return _NONE
    try:
        epoch = decode_controller(tree.data("/controller")).kraft_controller_epoch
    except MalformedZnodeError:
        return _NONE
    return _NONE if epoch is None else epoch


def _offset(tree: Tree) -> int | None:
    """The offset of `/migration`; None where it has no content that can be read."""
    try:
        return decode_migration(tree.data("/migration")).kraft_metadata_offset
    except MalformedZnodeError:
        return None
