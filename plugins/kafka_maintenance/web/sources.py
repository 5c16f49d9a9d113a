"""What the pages show, from Airflow's database (which plan, which report) and from the store (their content).

Runs in the API server, so connections and variables come from Airflow's models, not from the Task SDK.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from airflow.models.connection import Connection
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.session import create_session

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import ControllerCoreError, InvalidPlanError, ObjectMissingError
from controller_core.plans.conditions import condition_to_json
from controller_core.plans.plan import PlanStep
from controller_core.plans.request_znodes import request_to_json
from kafka_maintenance import hooks
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.plans.store import find_plan, read_plan
from kafka_maintenance.operations.snapshots.retention_plan import KIND as RETENTION
from kafka_maintenance.operations.snapshots.retention_plan import find_retention
from kafka_maintenance.web.pages import ClusterRow, PlanPage

GATE = "approve"
_Described = tuple[str, list[tuple[str, Sequence[str]]], list[list[tuple[str, str, str]]]]
"""Address, sections with their lines, and rows of steps of a plan."""
PLANNING_TASKS = (
    "plan_elections",
    "plan_reassignment",
    "plan_deletions",
    "plan_drain",
    "plan_repairs",
    "plan_retention",
)
CHOOSING_TASK = "choose_snapshots"
PUBLISHING_TASK = "publish_report"


class NothingToShowError(Exception):
    """The run has no report or no plan; says why that may be."""


def report_of_run(dag_id: str, run_id: str) -> str:
    """The HTML of the report that the run published, as the analysis wrote it.

    Raises:
        NothingToShowError: the run published none.
        ObjectMissingError: the store has lost it.
    """
    values = list(_returned(dag_id, run_id, (PUBLISHING_TASK,)))
    if not values:
        for note in _returned(dag_id, run_id, (CHOOSING_TASK,), key="note"):
            raise NothingToShowError(str(note))
        raise NothingToShowError("This run has published no report: only runs of nightly_analysis do, at their end.")
    store = _store()
    return store.get(_key(store, str(values[-1]["report_html"]))).decode()


def plans_of_run(dag_id: str, run_id: str) -> list[PlanPage]:
    """The plans that the run made, as the store holds them now; one that is gone says so in its place.

    Raises:
        NothingToShowError: the run made none, or not yet.
        StoreUnreachableError: the store does not answer.
    """
    from kafka_maintenance.operations.snapshots.catalog import at_once  # noqa: PLC0415 - pyarrow, only when it is asked for

    named = [
        plan
        for value in _returned(dag_id, run_id, PLANNING_TASKS)
        for plan in (value if isinstance(value, list) else [value])
    ]
    if not named:
        raise NothingToShowError("This run has made no plan: it has not come so far, or there was nothing to do.")
    store = _store()
    gate = f"/dags/{quote(dag_id)}/runs/{quote(run_id)}/tasks/{GATE}/required_actions" if _has_gate(dag_id) else None
    return list(at_once(lambda plan: plan_page(store, plan, gate), named))


def plan_page(store: ObjectStore, named: Mapping[str, Any], gate: str | None) -> PlanPage:
    """The page of one plan: `named` is what the planning task returned (kind, cluster, digest)."""
    kind, cluster, digest = (str(named[field]) for field in ("kind", "cluster", "digest"))
    page = PlanPage(
        kind=kind,
        cluster=cluster,
        digest=digest,
        uri="",
        gate=gate,
        receipts=list(_receipts(store, cluster, digest)),
    )
    described = _retention_described if kind == RETENTION else _maintenance_described
    try:
        uri, sections, steps = described(store, kind, cluster, digest)
    except InvalidPlanError as error:
        return replace(page, problem=f"It will be refused: {error}")
    except BadInputError as error:
        return replace(page, problem=f"It is gone, retention removes plans with their snapshot: {error}")
    return replace(page, uri=uri, sections=[section for section in sections if section[1]], steps=steps)


def _maintenance_described(store: ObjectStore, kind: str, cluster: str, digest: str) -> _Described:
    stored = find_plan(store, cluster=cluster, kind=kind, digest=digest)
    plan = read_plan(store, stored.uri)
    sections = [
        ("What will change", plan.predicted),
        ("What the approver should weigh", plan.risks),
        ("Left out", [f"{left.subject}: {left.reason}" for left in plan.left_out]),
        ("How to go back", [plan.rollback.text]),
    ]
    return stored.uri, sections, [list(_step(step)) for step in plan.steps]


def _retention_described(store: ObjectStore, _kind: str, cluster: str, digest: str) -> _Described:
    stored = find_retention(store, cluster=cluster, digest=digest)
    plan = stored.plan
    sections = [
        ("What will be removed", [f"{dropped.snapshot_id}, taken {dropped.taken_at}" for dropped in plan.dropped]),
        ("What killed runs left behind, removed too", plan.abandoned),
        ("What stays, and why", [f"{kept.snapshot_id}: {', '.join(kept.reasons)}" for kept in plan.kept]),
        ("How to go back", ["There is no way back: what is removed is gone."]),
    ]
    return stored.uri, sections, []


def _step(step: PlanStep) -> Iterator[tuple[str, str, str]]:
    for effect in step.effects:
        yield _row("do", "effect", request_to_json(effect))
    for condition in step.expectations:
        yield _row("if", "condition", condition_to_json(condition))
    for condition in step.outcomes:
        yield _row("then", "condition", condition_to_json(condition))


def _row(role: str, named_by: str, document: Mapping[str, object]) -> tuple[str, str, str]:
    values = {name: value for name, value in document.items() if name != named_by}
    return role, str(document.get(named_by, "?")), json.dumps(values, sort_keys=True)


def clusters() -> tuple[str, list[ClusterRow]]:
    """The store's URI and a row per cluster; a cluster that cannot be read says so in its row."""
    from kafka_maintenance.operations.snapshots.catalog import at_once  # noqa: PLC0415 - pyarrow, only when it is asked for

    store = _store()
    rows = [_cluster_row(name) for name in hooks.names_from(_variable(hooks.CLUSTERS_VARIABLE))]
    return store.uri, list(at_once(lambda row: _with_newest(store, row), rows))


def _cluster_row(name: str) -> ClusterRow:
    try:
        settings = hooks.cluster_from(name, Connection.get_connection_from_secrets(name))
    except AirflowNotFoundException:
        return ClusterRow(name=name, zookeeper="-", problem=str(hooks.no_connection(name)))
    except ControllerCoreError as error:
        return ClusterRow(name=name, zookeeper="-", problem=str(error))
    return ClusterRow(
        name=name, zookeeper=settings.zookeeper, kafka=settings.kafka_version or "-", archived=settings.archived
    )


def _with_newest(store: ObjectStore, row: ClusterRow) -> ClusterRow:
    from kafka_maintenance.operations.snapshots.catalog import keys_by_date, newest_of  # noqa: PLC0415 - as above

    if row.problem:
        return row
    try:
        by_date = keys_by_date(store, row.name)
        if not by_date:
            return replace(row, problem="no snapshot yet")
        newest = newest_of(store, by_date[max(by_date)])
    except ControllerCoreError as error:
        return replace(row, problem=str(error))
    return replace(
        row,
        newest=f"{newest.taken_at:%Y-%m-%d %H:%M} UTC",
        consistent=newest.consistent,
        topics=str(newest.counts.get("topics", "-")),
        partitions=str(newest.counts.get("partitions", "-")),
        brokers=str(newest.counts.get("brokers", "-")),
        days=len(by_date),
    )


def _returned(dag_id: str, run_id: str, task_ids: tuple[str, ...], key: str = "return_value") -> Iterator[Any]:
    with create_session() as session:
        query = XComModel.get_many(run_id=run_id, key=key, task_ids=task_ids, dag_ids=dag_id)
        rows = cast("list[XComModel]", list(session.scalars(query)))
        for row in sorted(rows, key=lambda row: (row.task_id, row.map_index)):
            value = XComModel.deserialize_value(row)
            if value:
                yield value


def _receipts(store: ObjectStore, cluster: str, digest: str) -> Iterator[tuple[str, str]]:
    prefix = f"v1/receipts/cluster={cluster}/{digest}/"
    for key in sorted(store.list(prefix)):
        content = store.get(key)
        try:
            shown = json.dumps(json.loads(content), indent=1, sort_keys=True)
        except ValueError as error:
            shown = f"Damaged, no JSON ({error}); as it lies in the store:\n{content.decode(errors='replace')}"
        yield key.removeprefix(prefix), shown


def _has_gate(dag_id: str) -> bool:
    return dag_id != "nightly_analysis"


def _key(store: ObjectStore, uri: str) -> str:
    prefix = store.uri.rstrip("/") + "/"
    if not uri.startswith(prefix):
        raise ObjectMissingError(
            f"object {uri} not read: the store of this Airflow is {store.uri}; correct the Variable {hooks.STORE_VARIABLE}"
        )
    return uri.removeprefix(prefix)


def _store() -> ObjectStore:
    try:
        connection = Connection.get_connection_from_secrets(hooks.STORE_CONNECTION)
    except AirflowNotFoundException:
        connection = None
    return hooks.store_settings_from(_variable(hooks.STORE_VARIABLE), connection).open()


def _variable(name: str) -> str | None:
    return Variable.get_variable_from_secrets(name)
