"""Rehearses a snapshot of the store; the store is only read, and nothing stays on the machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.secrets import SnapshotSealer, sealer_of
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.asked import Answers, ask_brokers, with_answers
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy, copy_of
from kafka_maintenance.operations.kraft.rehearsal.planned_broker import planned_broker, planned_by_answers
from kafka_maintenance.operations.kraft.rehearsal.real_brokers import WithBrokers, with_real_brokers
from kafka_maintenance.operations.kraft.rehearsal.report import Rehearsal
from kafka_maintenance.operations.kraft.rehearsal.run import Outcome, Quorum, rehearse
from kafka_maintenance.operations.kraft.repairs import Repair, repairs
from kafka_maintenance.operations.snapshots.catalog import public_configs, read_raw
from kafka_maintenance.servers import Workspace
from kafka_maintenance.servers.kraft_controller import MIGRATING_VERSIONS
from spark_jobs.kraft.tree import tree_of


@dataclass(frozen=True, slots=True)
class RealBrokers:
    """How many brokers are real, and their server.properties; None: as the asked brokers answer, else Kafka's defaults."""

    count: int
    properties: str | None = None


def rehearse_snapshot(
    store: ObjectStore,
    manifest: Manifest,
    quorum: Quorum,
    *,
    key_file: Path | None = None,
    fix: bool = False,
    brokers: BrokersAsked | None = None,
    real: RealBrokers | None = None,
) -> Rehearsal:
    """Certifies the snapshot and migrates a copy of it; with `fix` another copy with the repairs, too; with `real` another one with real brokers.

    Args:
        store: read only.
        manifest: of the snapshot.
        quorum: what is planned.
        key_file: opens sealed secrets, so that they are rehearsed, too.
        fix: also rehearse the repairs.
        brokers: asked what neither snapshot nor copy can tell; None: nobody is.
        real: how many real brokers are started, with whose settings; None: all are imitated.

    Raises:
        NoBrokerAnsweredError: none of the named brokers answers; nothing was rehearsed.
        BadInputError: a version that cannot migrate.
        SnapshotKeyError: a key that cannot be used.
        VersionRefusedError: a release version that this Kafka does not have.
        LocalStackError: no server starts.
    """
    wanted_real = real.count if real else 0
    if quorum.version not in MIGRATING_VERSIONS:
        raise BadInputError(
            f"rehearsal not started: expected a Kafka version of {', '.join(MIGRATING_VERSIONS)}, found {quorum.version!r}; choose one of them"
        )
    raw = read_raw(store, manifest)
    tree = tree_of(raw, public_configs(store, manifest))
    if wanted_real > len(tree.registered):
        raise BadInputError(
            f"rehearsal not started: expected at most {len(tree.registered)} real brokers, which are all that the snapshot has registered, found {wanted_real}"
        )
    certificate = certify(tree, manifest)
    answers = ask_brokers(brokers, datetime.now(UTC)) if brokers is not None else None
    if answers is not None:
        certificate = with_answers(certificate, tree, answers)
    sealer = sealer_of(key_file, manifest.cluster, manifest.snapshot_id)
    copy = copy_of(tree, _opened(raw, sealer) if sealer else None)
    wanted = repairs(copy.tree) if fix else ()
    outcome = rehearse(copy, quorum)
    return Rehearsal(
        certificate=certificate,
        quorum=quorum,
        outcome=outcome,
        left_out=copy.left_out,
        repairs=wanted,
        repaired=rehearse(repaired(copy, wanted), quorum) if fix else None,
        real=_with_real(real, copy, outcome, quorum, answers) if real else None,
    )


def _with_real(real: RealBrokers, copy: Copy, outcome: Outcome, quorum: Quorum, answers: Answers | None) -> WithBrokers:
    """The lowest of the registered brokers are real; their own answers say how they are set, unless a file does.

    Of what stopped the imitated ones only quotas stay on the copy at first (R12): there real brokers do more than wait.
    """
    first = copy if {each.rule for each in outcome.obstacles} <= {"R12"} else outcome.rest
    answered = planned_by_answers(answers) if answers else {}
    told = None if real.properties is None else planned_broker(real.properties)
    settings = {
        broker: answered.get(broker, {}) if told is None else told
        for broker in sorted(copy.tree.registered)[: real.count]
    }
    with Workspace.create_temporary() as workspace:
        return with_real_brokers(first, outcome.rest, quorum, settings, workspace)


def repaired(copy: Copy, wanted: tuple[Repair, ...]) -> Copy:
    """The copy with the repairs done."""
    removed = [each.path for each in wanted if each.data is None]
    return copy.without(*removed).with_data({each.path: each.data for each in wanted if each.data is not None})


def _opened(raw: pa.Table, sealer: SnapshotSealer) -> Mapping[str, bytes]:
    """Path → data of the sealed secrets."""
    rows = zip(raw["path"].to_pylist(), raw["sealed"].to_pylist(), strict=True)
    return {path: sealer.open(path, sealed) for path, sealed in rows if sealed is not None}
