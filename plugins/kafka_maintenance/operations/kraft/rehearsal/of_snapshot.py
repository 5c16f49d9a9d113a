"""Rehearses a snapshot of the store; the store is only read, and nothing stays on the machine."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.secrets import SnapshotSealer, sealer_of
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.asked import ask_brokers, with_answers
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy, copy_of
from kafka_maintenance.operations.kraft.rehearsal.report import Rehearsal
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum, rehearse
from kafka_maintenance.operations.kraft.repairs import Repair, repairs
from kafka_maintenance.operations.snapshots.catalog import public_configs, read_raw
from kafka_maintenance.servers.kraft_controller import MIGRATING_VERSIONS
from spark_jobs.kraft.tree import tree_of


def rehearse_snapshot(
    store: ObjectStore,
    manifest: Manifest,
    quorum: Quorum,
    *,
    key_file: Path | None = None,
    fix: bool = False,
    brokers: BrokersAsked | None = None,
) -> Rehearsal:
    """Certifies the snapshot and migrates a copy of it; with `fix` another copy with the repairs, too.

    Args:
        store: read only.
        manifest: of the snapshot.
        quorum: what is planned.
        key_file: opens sealed secrets, so that they are rehearsed, too.
        fix: also rehearse the repairs.
        brokers: asked what neither snapshot nor copy can tell; None: nobody is.

    Raises:
        NoBrokerAnsweredError: none of the named brokers answers; nothing was rehearsed.
        BadInputError: a version that cannot migrate.
        SnapshotKeyError: a key that cannot be used.
        LocalStackError: no server starts.
    """
    if quorum.version not in MIGRATING_VERSIONS:
        raise BadInputError(
            f"rehearsal not started: expected a Kafka version of {', '.join(MIGRATING_VERSIONS)}, found {quorum.version!r}; choose one of them"
        )
    raw = read_raw(store, manifest)
    tree = tree_of(raw, public_configs(store, manifest))
    certificate = certify(tree, manifest)
    if brokers is not None:
        certificate = with_answers(certificate, tree, ask_brokers(brokers, datetime.now(UTC)))
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
    )


def repaired(copy: Copy, wanted: tuple[Repair, ...]) -> Copy:
    """The copy with the repairs done."""
    for repair in wanted:
        copy = copy.without(repair.path) if repair.data is None else copy.with_data(repair.path, repair.data)
    return copy


def _opened(raw: pa.Table, sealer: SnapshotSealer) -> Mapping[str, bytes]:
    """Path → data of the sealed secrets."""
    rows = zip(raw["path"].to_pylist(), raw["sealed"].to_pylist(), strict=True)
    return {path: sealer.open(path, sealed) for path, sealed in rows if sealed is not None}
