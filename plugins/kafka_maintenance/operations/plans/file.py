"""Plans one cluster from a file: cluster state in, Kafka's reassignment JSON and its certificate out.

No Airflow, no Spark, no ZooKeeper. The formats are described in docs/planning.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka_maintenance.operations.errors import BadInputError
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.result import ReassignmentPlan
from spark_jobs.planner.waves import Limits, Schedule, schedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilePlan:
    """A plan that lies in its files, with its waves where they were asked for."""

    plan: ReassignmentPlan
    schedule: Schedule | None


def plan_file(
    state: Path,
    *,
    out: Path,
    certificate: Path | None = None,
    rollback: Path | None = None,
    waves: Path | None = None,
    goals: Goals,
    limits: Limits | None = None,
) -> FilePlan:
    """Reads a cluster state, plans, verifies, and writes the files; nothing is written unless all went well.

    Args:
        state: cluster-state JSON.
        out: gets Kafka's reassignment JSON of the partitions that change.
        certificate: gets the certificate.
        rollback: gets the reassignment JSON back to the lists of now.
        waves: a folder that gets `wave-0001.json`, … and `waves.json` (figures); made if it is missing.
        goals: what is wanted.
        limits: what one wave may load; only with `waves`.

    Raises:
        BadInputError: the state cannot be read, is not JSON, an output cannot be written, or limits without waves.
        InvalidStateError, ImpossibleGoalError: those of the planner.
    """
    if limits is not None and waves is None:
        raise BadInputError(
            f"cluster state {state} not planned: limits of waves (--wave-…, --bandwidth, --window-s) belong to --waves, which "
            "is missing; name a folder for the waves, or leave the limits out"
        )
    cluster = ClusterState.from_json(_read(state), ignore_racks=goals.ignore_racks)
    plan = optimal_plan(cluster, goals)
    plan = replace(plan, remarks=(*goals.without_effect(cluster.topics), *plan.remarks))
    cut = schedule(plan, limits) if waves is not None else None
    files: dict[Path, Any] = {out: plan.reassignment_json()}
    if certificate is not None:
        files[certificate] = plan.certificate_json()
    if rollback is not None:
        files[rollback] = plan.rollback_json()
    if waves is not None and cut is not None:
        files[waves / "waves.json"] = cut.summary()
        for number, document in enumerate(cut.to_json(cluster), start=1):
            files[waves / f"wave-{number:04d}.json"] = document
    _write(files)
    return FilePlan(plan=plan, schedule=cut)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInputError(f"cluster state {path} not read: {error.strerror}; name a readable file") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"cluster state {path} not read: JSON expected, found: {error}; export the state again"
        ) from error
    if not isinstance(document, Mapping):
        raise BadInputError(
            f'cluster state {path} not read: {{"brokers": […], "partitions": […]}} expected, a '
            f"{type(document).__name__} found; see docs/planning.md"
        )
    return document


def _write(files: Mapping[Path, Any]) -> None:
    """All files under temporary names first, so that a full disk leaves no half plan behind."""
    written: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, document in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            written.append((draft, path))
            draft.write_text(json.dumps(document), encoding="utf-8")
        for draft, path in written:
            draft.replace(path)
    except OSError as error:
        for draft, _ in written:
            draft.unlink(missing_ok=True)
        raise BadInputError(f"plan not written to {path}: {error.strerror}; name a writable file") from error
