"""Airflow's cluster policy: a writing task takes the one slot of the cluster that its run names, and the analysis of a past date waits for today's.

Registered through the entry point `airflow.policy`, beside whatever policies a company has of its own: Airflow calls all of them, those of
an `airflow_local_settings` first.
"""

from datetime import UTC, datetime
from typing import Any

from airflow import settings
from airflow.policies import hookimpl

# Up to Airflow 3.3 only `airflow_local_settings` clears this mark, and while it stands no policy of an entry point is called.
settings.task_instance_mutation_hook.is_noop = False  # type: ignore[attr-defined]


@hookimpl
def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
    """Moves a task of the pool `kafka_apply` to the pool of its run's cluster, and makes missing pools of ours; gives way to today's analysis.

    Called before the task is queued.
    """
    from kafka_maintenance.hooks import cluster_of_dag  # noqa: PLC0415 - as below
    from kafka_maintenance.tasks.pools import (  # noqa: PLC0415 - Airflow loads policies while the first import of it, maybe that of pools, goes on
        is_of_past_date,
        pool_of,
        pool_ready,
    )

    if dag_run is not None:
        conf = {"cluster": cluster_of_dag(dag_run.dag_id), **(dag_run.conf or {})}
        task_instance.pool = pool_of(task_instance.pool, conf, pool_ready)
        if is_of_past_date(task_instance.pool, getattr(dag_run, "partition_key", None), datetime.now(UTC).date()):
            task_instance.priority_weight = 0  # less than any task has by itself
