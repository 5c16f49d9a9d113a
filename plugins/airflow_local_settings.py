"""Airflow's cluster policy: a writing task takes the one slot of the cluster that its run names."""

from typing import Any

from kafka_maintenance.tasks.pools import pool_exists, pool_of


def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
    """Moves a task of the pool `kafka_apply` to the pool of its run's cluster; called before it is queued."""
    if dag_run is not None:
        task_instance.pool = pool_of(task_instance.pool, dag_run.conf, pool_exists)
