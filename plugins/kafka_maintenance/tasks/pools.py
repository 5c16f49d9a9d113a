"""Pools: one slot for Spark, one slot per cluster for writing, so that two runs never write to one cluster at once.

A task's pool is fixed when its DAG is read, the cluster only when a run starts: the policy (`provider.policy`) sends a writing
task to its cluster's pool `kafka_apply_<cluster>`. Missing pools are made by `kafka-maintenance make-pools`, by the scheduler when it
starts, and for the first task that needs one; existing ones are left as they are.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from airflow.listeners import hookimpl

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance.operations.errors import OperationError

SPARK_POOL = "spark"
APPLY_POOL = "kafka_apply"
_DESCRIPTIONS = {
    SPARK_POOL: "One Spark job at a time on this machine",
    APPLY_POOL: "Tasks that write to a cluster without a pool of its own",
}

log = logging.getLogger(__name__)


def apply_pool(cluster: str) -> str:
    """The pool of the tasks that write to `cluster`."""
    return f"{APPLY_POOL}_{cluster}"


def pool_of(pool: str, conf: Mapping[str, Any] | None, ready: Callable[[str], bool]) -> str:
    """The pool of a task that its DAG puts into `pool`, in a run with this `conf`.

    A cluster without a pool of its own shares `kafka_apply`: a task in a pool that does not exist would never run.

    Args:
        pool: of the task in its DAG.
        conf: of the run.
        ready: whether the pool of that name is there, once it was tried to make it.
    """
    if pool not in _DESCRIPTIONS:
        return pool
    cluster = (conf or {}).get("cluster")
    if pool == APPLY_POOL and isinstance(cluster, str) and cluster and ready(wanted := apply_pool(cluster)):
        return wanted
    ready(pool)
    return pool


def is_of_past_date(pool: str, partition_key: str | None, today: date) -> bool:
    """Whether a task in that pool is a Spark job of a past date: a backfill has many, and the one slot belongs to today's first.

    Args:
        pool: of the task.
        partition_key: of its run, which is the UTC date of an analysis; None: of none.
        today: the UTC date.
    """
    return pool == SPARK_POOL and partition_key is not None and partition_key[:10] < today.isoformat()


def pool_ready(name: str) -> bool:
    """Whether Airflow's database has the pool, which is made where it is missing and one of ours; never raises.

    In a thread of its own: the scheduler, which asks in the middle of its work, forbids others to end its session. On SQLite, which has one
    writer, nothing is made.
    """
    if pool_exists(name):
        return True
    if not _has_many_writers():
        return False
    try:
        with ThreadPoolExecutor(max_workers=1) as other:
            return name in other.submit(make_missing_pools).result() or pool_exists(name)
    except Exception:  # a scheduler must not end of it, and the task shares a pool
        log.exception("pool %r not made; make it with `kafka-maintenance make-pools`", name)
        return False


def _has_many_writers() -> bool:
    from airflow import settings

    return settings.engine is not None and settings.engine.dialect.name != "sqlite"


def pool_exists(name: str) -> bool:
    """Whether Airflow's database has the pool; asked beside any session, since the scheduler forbids a second one."""
    from airflow import settings
    from airflow.models.pool import Pool
    from sqlalchemy import select

    if settings.engine is None:
        return False
    with settings.engine.connect() as connection:
        return connection.execute(select(Pool.id).where(Pool.pool == name)).first() is not None


def pools_needed(clusters: tuple[str, ...]) -> dict[str, str]:
    """Name → description of every pool that an Airflow with these clusters must have, each of one slot."""
    return _DESCRIPTIONS | {apply_pool(name): f"Tasks that write to the cluster {name}" for name in clusters}


@hookimpl
def on_starting(component: Any) -> None:
    """Makes the missing pools when the scheduler starts."""
    if getattr(component, "job_type", None) != "SchedulerJob":
        return
    make_missing_pools()


def require_tables() -> None:
    """Refuses a database that is not Airflow's, or not migrated: what is asked of it fails with pages of others' words.

    Raises:
        OperationError: it does not answer, or has no pools; says what to run.
    """
    from airflow import settings
    from airflow.models.pool import Pool
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    engine = settings.engine
    assert engine is not None, "Airflow was imported"
    # SQLite makes a file that is not there when it is asked anything
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    try:
        found = (not file or Path(file).exists()) and inspect(engine).has_table(Pool.__tablename__)
    except SQLAlchemyError as error:
        said = " ".join(str(error).split())
        raise OperationError(f"pools not made: {engine.url!r} does not answer: {said}; check the address") from error
    if not found:
        raise OperationError(
            f"pools not made: expected the tables of Airflow in {engine.url!r}, found none; run `airflow db migrate`, or this command "
            "where Airflow's settings are"
        )


def make_missing_pools() -> tuple[str, ...]:
    """Makes the pools that Airflow's database lacks; returns their names. Needs the database: not for tasks."""
    from airflow.models.pool import Pool
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE, names_from

    try:
        clusters = names_from(Variable.get_variable_from_secrets(CLUSTERS_VARIABLE))
    except ControllerCoreError as error:
        log.warning("only the common pools are made: %s", error)
        clusters = ()
    made = []
    with create_session() as session:
        known = {pool.pool for pool in Pool.get_pools(session=session)}
        for name, description in pools_needed(clusters).items():
            if name not in known:
                Pool.create_or_update_pool(name, 1, description, False, session=session)
                made.append(name)
    return tuple(made)
