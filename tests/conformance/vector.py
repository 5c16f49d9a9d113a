"""What the conformance runner hands to an operation, and the vocabulary that all operations share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller_core.model.dialect import MINOR_VERSIONS, Dialect, dialect_for, parse_version
from controller_core.model.errors import UnknownVersionError
from controller_core.model.partitions import (
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)

Document = dict[str, Any]


class UnsupportedError(Exception):
    """The runner knows neither the operation, nor a step, nor the dialect."""


@dataclass(frozen=True)
class Vector:
    """One situation and action. `dialect` is None for calculations of the command-line tools (`tool`)."""

    name: str
    given: Document
    action: Document
    ask: Document
    dialect: Dialect | None
    tool: str | None = None

    @property
    def controller_dialect(self) -> Dialect:
        if self.dialect is None:
            raise UnsupportedError(f"{self.action['op']} needs a controller, the dialect is {self.tool!r}")
        return self.dialect


Operation = Callable[[Vector], Document]


def vector_of(document: Mapping[str, Any]) -> Vector:
    given, action = document["given"], document["action"]
    ibp = given.get("context", {}).get("ibp")
    text = document["dialect"]
    if text.endswith("tool"):
        return Vector(document["name"], given, action, document.get("ask") or {}, None, text)
    return Vector(document["name"], given, action, document.get("ask") or {}, chosen_dialect(text, ibp))


def chosen_dialect(text: str, ibp: str | None) -> Dialect:
    """The newest version in a range (`any`, `>=2.4`, `<=2.2`, `==2.4`, `2.4-2.7`, `ibp`), with the IBP if given."""
    low, high = _bounds(text)
    try:
        floor = parse_version(low or MINOR_VERSIONS[0])
        roof = parse_version(high or MINOR_VERSIONS[-1])
        fitting = [version for version in MINOR_VERSIONS if floor <= parse_version(version) <= roof]
        if fitting:
            return dialect_for(fitting[-1], ibp)
    except UnknownVersionError as error:
        raise UnsupportedError(str(error)) from None
    raise UnsupportedError(f"no version of Kafka is {text!r}: expected one of {', '.join(MINOR_VERSIONS)}")


def _bounds(text: str) -> tuple[str | None, str | None]:
    if text in {"any", "ibp"}:
        return None, None
    if found := re.fullmatch(r"(>=|<=|==)([\d.]+)", text):
        sign, version = found.groups()
        return (version if sign != "<=" else None), (_all_of(version) if sign != ">=" else None)
    if found := re.fullmatch(r"([\d.]+)-([\d.]+)", text):
        return found[1], _all_of(found[2])
    raise UnsupportedError(f"dialect {text!r} is not understood")


def _all_of(version: str) -> str:
    """0.10 means all of 0.10.x, where the third number names a minor version."""
    return f"{version}.99" if re.fullmatch(r"0\.\d+", version) else version


# ---- names -----------------------------------------------------------------------------------------------------------


def partition_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def replica_of(text: str) -> PartitionAndReplica:
    partition, _, broker = text.rpartition("-")
    return PartitionAndReplica(partition_of(partition), BrokerId(int(broker)))


def brokers_of(ids: list[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in ids)


def leadership_of(record: Mapping[str, Any]) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=BrokerId(record["leader"]),
        leader_epoch=record["leader_epoch"],
        isr=brokers_of(record["isr"]),
        recovery=LeaderRecoveryState[record.get("recovery") or "RECOVERED"],
        partition_epoch=record.get("zk_version") or 0,
        controller_epoch=record.get("controller_epoch") or 0,
    )


def leadership_record(state: LeaderAndIsr) -> Document:
    return {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "recovery": state.recovery.name,
        "zk_version": state.partition_epoch,
        "controller_epoch": state.controller_epoch,
    }


def assignment_of(record: Mapping[str, Any]) -> ReplicaAssignment:
    return ReplicaAssignment(
        brokers_of(record["replicas"]), brokers_of(record.get("adding") or []), brokers_of(record.get("removing") or [])
    )


def assignment_record(assignment: ReplicaAssignment) -> Document:
    return {
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
    }
