"""The znode that says which step of which plan Kafka was asked for and has not been seen to finish, or waits to be asked for.

It is created in the transaction of the request, so that a run that was killed before it could record the request knows that
it was made; and it stays when the lock has vanished with its session, so that no other plan begins meanwhile. So does that of a
step that waits between two others for its change window or for the cluster.
Source: docs/adr, "The lock is a znode".
"""

import json
from enum import StrEnum
from typing import Final, NamedTuple

from controller_core.model.errors import BadVersionError, NodeExistsError, NoNodeError
from controller_core.ports.zookeeper import Check, Create, Delete, Operation, ZooKeeper
from kafka_maintenance.operations.errors import LockLostError

EXECUTION_PATH: Final = "/admin/kafka_maintenance_execution"


class Road(StrEnum):
    """How Kafka is asked for a step.

    A request znode is created with the execution, in one transaction. Brokers are asked after the execution was created, so that it says
    only that they may have heard; whether they did, the versions of the topics' znodes tell (`ask_brokers.unheard`).
    A step that waits was not asked for.
    """

    REQUEST_ZNODES = "request_znodes"
    ADMIN_API = "admin_api"
    NOT_ASKED = "not_asked"


class Execution(NamedTuple):
    """A step that was asked for, or waits: the digest of its plan, its number from 0 on, the run, who approved, when (ISO 8601), and how."""

    plan: str
    step: int
    run: str
    approver: str
    since: str
    road: str = Road.REQUEST_ZNODES


class Found(NamedTuple):
    """The execution that stands, and the version of its znode; None where its data cannot be read."""

    execution: Execution | None
    version: int
    data: bytes


def find_execution(zookeeper: ZooKeeper) -> Found | None:
    """The execution that stands; None where there is none."""
    try:
        data, stat = zookeeper.get(EXECUTION_PATH)
    except NoNodeError:
        return None
    return Found(_execution(data), stat.version, data)


def _execution(data: bytes) -> Execution | None:
    """None where it cannot be read; fields of a later version are left out."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match document:
        case {"plan": str(plan), "step": int(step), "run": str(run), "approver": str(approver), "since": str(since)}:
            return Execution(plan, step, run, approver, since, str(document.get("road", Road.REQUEST_ZNODES)))
    return None


def begin_execution(execution: Execution) -> Operation:
    """What belongs into the transaction of the request."""
    return Create(path=EXECUTION_PATH, data=json.dumps(execution._asdict(), sort_keys=True).encode())


def keep_place(zookeeper: ZooKeeper, fence: Check, execution: Execution) -> None:
    """Keeps other plans away while a step waits, as the holder of the lock; nothing where that is done.

    Args:
        zookeeper: the living cluster.
        fence: holds the lock.
        execution: the step that waits, `Road.NOT_ASKED`.

    Raises:
        LockLostError: another run may be at work.
    """
    if find_execution(zookeeper) is not None:
        return
    try:
        zookeeper.multi([fence, begin_execution(execution)])
    except (NoNodeError, BadVersionError, NodeExistsError) as error:
        raise LockLostError(
            f"{EXECUTION_PATH} of plan {execution.plan[:12]}, which waits, not created: the session and with it the lock was lost "
            f"({error}); run again"
        ) from None


def end_execution(zookeeper: ZooKeeper, fence: Check, plan: str) -> None:
    """Removes the execution of the plan with that digest, as the holder of the lock; nothing where it is not there.

    Raises:
        LockLostError: nothing was removed; another run may be at work.
    """
    found = find_execution(zookeeper)
    if found is None or found.execution is None or found.execution.plan != plan:
        return
    try:
        zookeeper.multi([fence, Delete(path=EXECUTION_PATH, version=found.version)])
    except (NoNodeError, BadVersionError) as error:
        raise LockLostError(
            f"{EXECUTION_PATH} of plan {plan[:12]} not removed: the session and with it the lock was lost ({error}); run again"
        ) from None
