"""The core as the only controller of the brokers of a throw-away ZooKeeper on this machine, until somebody ends it.

For development and tests: no production cluster is ever run by it. Source: docs/fidelity.md, "How it is measured".
"""

from collections.abc import Callable
from typing import Final

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId
from controller_core.model.words import first_names
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.laboratory import LaboratoryController, is_loopback
from controller_core.znodes.paths import broker_path
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.errors import NotFinishedError, RefusedError, listed

MARKER: Final = "/kafka_maintenance_laboratory"
"""Stands in every tree that a laboratory began with; one without it and with anything else in it is somebody's."""
DIRECTORIES: Final = (
    "/brokers/ids",
    "/brokers/topics",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
)
CONTROLLER_ID: Final = 1000
BANNER: Final = (
    "LABORATORY: this process is the only controller of the brokers on this ZooKeeper, for development and tests on this machine. No production cluster is\n"
    "ever run by it: it has no stand-by, and when it ends nobody commands the brokers. Ctrl-C ends it."
)
_LOOK_S: Final = 0.5
_SESSION_S: Final = 6.0
_SHOWN_MAX: Final = 10


def run_laboratory(
    address: ClusterAddress,
    *,
    kafka_version: str,
    protocol: str | None,
    controller_id: int,
    stop: Stop,
    tell: Callable[[str], None],
) -> int:
    """Commands the brokers until `stop` has a reason; how many state changes there were.

    Args:
        address: a ZooKeeper on loopback whose tree is empty, or was begun by a laboratory.
        kafka_version: of the brokers.
        protocol: their inter.broker.protocol.version; None: that of the version.
        controller_id: ours; no broker may have it.
        stop: ends it.
        tell: told the banner, then each line of the state-change log.

    Raises:
        RefusedError: anything but loopback and a throw-away tree, or a controller id that is taken.
        NotFinishedError: the controller ended with an error.
        ZooKeeperUnreachableError: nobody answers.
    """
    require_loopback_hosts(address)
    dialect = dialect_for(kafka_version, protocol)
    with address.session(session_timeout_s=_SESSION_S, create_chroot=True) as session:
        begin_tree(session, address)
        if session.exists(broker_path(controller_id)) is not None:
            raise RefusedError(
                f"laboratory on {address} not started: expected nobody at {broker_path(controller_id)}, found a broker, or a laboratory whose session "
                "is not over yet; name another --controller-id, or wait"
            )
        tell(BANNER)
        told = 0
        config = ControllerConfig(controller_id=BrokerId(controller_id), auto_leader_rebalance=False)
        with LaboratoryController(session, dialect, config) as controller:
            while stop.reason is None and controller.failure is None:
                stop.wait(_LOOK_S)
                changes = controller.state_changes[told:]
                told += len(changes)
                for line in changes:
                    tell(line)
        if controller.failure is not None:
            raise NotFinishedError(
                f"laboratory on {address} ended: expected to command its brokers until it is stopped, found {controller.failure}; the brokers have no controller now"
            ) from controller.failure
        return told


def require_loopback_hosts(address: ClusterAddress) -> None:
    """Refuses a ZooKeeper that listens anywhere but on loopback.

    Raises:
        RefusedError: names the hosts.
    """
    hosts = [(each.rpartition(":")[0] or each).strip("[]") for each in address.zookeeper.partition("/")[0].split(",")]
    strange = [host for host in hosts if not is_loopback(host)]
    if strange:
        raise RefusedError(
            f"laboratory on {address} not started: expected a ZooKeeper on loopback, found {listed(strange)}; no production cluster is ever run by it"
        )


def begin_tree(session: ZooKeeper, address: ClusterAddress) -> None:
    """Makes what brokers expect, in an empty tree; a tree that a laboratory began is taken as it is.

    Raises:
        RefusedError: something else is there.
    """
    if session.exists(MARKER) is None:
        found = sorted(set(session.children("/")) - {"zookeeper"})
        if found:
            raise RefusedError(
                f"laboratory on {address} not started: expected an empty tree, or one that a laboratory began ({MARKER}), found "
                f"{first_names(found, _SHOWN_MAX)}; name an empty chroot of a throw-away ZooKeeper"
            )
        session.create(MARKER)
    for path in DIRECTORIES:
        if session.exists(path) is None:
            session.create(path, make_parents=True)
