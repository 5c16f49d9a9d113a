"""What the pages need of Airflow: plans and reports of runs, questions that wait, clusters, the store.

Runs, XComs and questions come from Airflow's models, which are no public interface: docs/adr/0019 says why, and that it is here alone.
"""

import os
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk.configuration import conf
from airflow.utils.session import create_session
from cryptography.fernet import InvalidToken
from sqlalchemy import select

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import ControllerCoreError, ObjectMissingError
from kafka_maintenance import hooks
from kafka_maintenance.connections.clusters import cluster_from
from kafka_maintenance.connections.fields import no_connection
from kafka_maintenance.connections.store import STORE_VARIABLE
from kafka_maintenance.operations.gate.airflow_record import GATE_TASK
from kafka_maintenance.web.views.approvals import Gate
from kafka_maintenance.web.views.clusters import Listed, Waiting
from kafka_maintenance.web.views.plan import Named

PLANNING_TASKS = (
    "plan_elections",
    "plan_reassignment",
    "plan_deletions",
    "plan_drain",
    "plan_leader_moves",
    "plan_repairs",
    "plan_restore",
    "plan_retention",
)
CHOOSING_TASK = "choose_snapshots"
PUBLISHING_TASK = "publish_report"
_WITHOUT_GATE = "nightly_analysis"
_WAITING = ("awaiting_input", "deferred")
"""States of a gate that has asked: that of Airflow 3.3, and that of 3.2, where the triggerer waits."""


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
    opened = hooks.store()
    return opened.get(key_of(opened, str(values[-1]["report_html"]))).decode(errors="replace")


def plans_of_run(dag_id: str, run_id: str) -> list[Named]:
    """The plans that the run made, as its planning tasks named them.

    Raises:
        NothingToShowError: the run made none, or not yet.
    """
    named = [
        Named(**{field: str(plan[field]) for field in ("kind", "cluster", "digest")})
        for value in _returned(dag_id, run_id, PLANNING_TASKS)
        for plan in (value if isinstance(value, list) else [value])
    ]
    if not named:
        raise NothingToShowError("This run has made no plan: it has not come so far, or there was nothing to do.")
    return named


def gate_of_run(dag_id: str, run_id: str) -> str | None:
    """The address of Airflow's page that asks for the answer; None where the DAG has no gate."""
    if dag_id == _WITHOUT_GATE:
        return None
    return f"/dags/{quote(dag_id)}/runs/{quote(run_id)}/tasks/{GATE_TASK}/required_actions"


def open_gates(dag_ids: set[str]) -> list[Gate]:
    """Every question of these DAGs that has no answer yet."""
    statement = (
        select(HITLDetail, TaskInstance, DagRun)
        .join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
        .where(HITLDetail.responded_at.is_(None), TaskInstance.state.in_(_WAITING), DagRun.dag_id.in_(dag_ids))
    )
    with create_session() as session:
        return [
            Gate(
                dag_id=run.dag_id,
                run_id=run.run_id,
                cluster=str((run.conf or {}).get("cluster") or hooks.cluster_of_dag(run.dag_id) or ""),
                subject=detail.subject,
                requester=run.triggering_user_name or str(run.run_type),
                asked=detail.created_at,
                expires=_expires(instance),
                address=f"/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}/tasks/{quote(instance.task_id)}/required_actions",
            )
            for detail, instance, run in session.execute(statement)
        ]


def _expires(instance: TaskInstance) -> datetime | None:
    """When no answer counts as Reject: the task knows in Airflow 3.3, its trigger in 3.2."""
    of_trigger = {} if instance.trigger is None else instance.trigger.kwargs
    expires: datetime | None = instance.trigger_timeout or of_trigger.get("timeout_datetime")
    return expires


def dags_of(cluster: str) -> Callable[[str], str]:
    """Name of a common DAG → the DAG in which that is done for this cluster: one of its own, where Airflow has it."""
    return dags_of_each([cluster])[cluster]


def dags_of_each(clusters: Collection[str]) -> dict[str, Callable[[str], str]]:
    """As `dags_of`, of many clusters: Airflow is asked once."""
    mark = hooks.CLUSTER_DAG_MARK + (next(iter(clusters)) if len(clusters) == 1 else "")
    with create_session() as session:
        known = set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.contains(mark, autoescape=True))))

    def of(cluster: str, name: str) -> str:
        own = f"{name}{hooks.CLUSTER_DAG_MARK}{cluster}"
        return own if own in known else name

    return {cluster: partial(of, cluster) for cluster in clusters}


def not_running(dag_id: str) -> str:
    """Why a run of the DAG would not run now; empty where it would."""
    with create_session() as session:
        paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id, ~DagModel.is_stale))
    if paused is None:
        return f"Airflow has no DAG {dag_id}: install it (kafka-maintenance install-dags)."
    return f"The DAG {dag_id} is paused, and a run of it would wait: unpause it first." if paused else ""


def waiting_by_cluster(gates: list[Gate]) -> dict[str, Waiting]:
    """How many of the questions are about each cluster, and since when."""
    found: dict[str, Waiting] = {}
    for gate in gates:
        known = found.get(gate.cluster)
        oldest = gate.asked if known is None else min(known.oldest, gate.asked)
        found[gate.cluster] = Waiting(count=1 if known is None else known.count + 1, oldest=oldest)
    return found


def listed_clusters() -> list[Listed]:
    """The clusters of the Variable; one whose connection cannot be used says why.

    Raises:
        SettingsMissingError: the Variable is missing or cannot be read.
    """
    names = hooks.cluster_names()
    stored = _stored_connections(names)
    return [_listed(name, stored.get(name)) for name in names]


def _stored_connections(names: tuple[str, ...]) -> dict[str, Connection]:
    """The connections that Airflow takes from its database, in one query: a thousand, asked for one by one, take more than a second.

    None where a secret backend comes first, or a password cannot be decrypted: each is asked for alone then, and its row says what is wrong.
    """
    if conf.get("secrets", "backend", fallback=None):
        return {}
    asked = [name for name in names if f"AIRFLOW_CONN_{name.upper()}" not in os.environ]
    statement = select(Connection).where(Connection.conn_id.in_(asked), Connection.team_name.is_(None))
    try:
        with create_session() as session:
            return {str(each.conn_id): each for each in session.scalars(statement)}
    except InvalidToken:  # of a password
        return {}


def _listed(name: str, stored: Connection | None) -> Listed:
    try:
        settings = cluster_from(name, stored) if stored is not None else hooks.KafkaClusterHook(name).settings()
    except ControllerCoreError as error:
        return Listed(name=name, problem=str(error))
    except InvalidToken:
        return Listed(name=name, problem=str(no_connection(name)))
    tags = (f"Kafka {settings.kafka_version}",) if settings.kafka_version else ()
    return Listed(name=name, zookeeper=settings.address.zookeeper, tags=tags, archived=settings.archived)


def key_of(opened: ObjectStore, uri: str) -> str:
    """The key of an address that a run has kept.

    Raises:
        ObjectMissingError: it is of another store than the one that Airflow uses now.
    """
    prefix = opened.uri.rstrip("/") + "/"
    if not uri.startswith(prefix):
        raise ObjectMissingError(
            f"object {uri} not read: the store of this Airflow is {opened.uri}; correct the Variable {STORE_VARIABLE}"
        )
    return uri.removeprefix(prefix)


def _returned(dag_id: str, run_id: str, task_ids: tuple[str, ...], key: str = "return_value") -> Iterator[Any]:
    with create_session() as session:
        query = XComModel.get_many(run_id=run_id, key=key, task_ids=task_ids, dag_ids=dag_id)
        rows = cast("list[XComModel]", list(session.scalars(query)))
        for row in sorted(rows, key=lambda row: (row.task_id, row.map_index)):
            value = XComModel.deserialize_value(row)
            if value:
                yield value
