"""DAGs of one cluster, `reassign_partitions__blue`: where a deployment wants Airflow's rights per DAG to tell clusters apart.

`KAFKA_MAINTENANCE_CLUSTER_DAGS` names these clusters. Each DAG that changes a cluster or its snapshots is then made once more for
each of them, and the common one refuses them: whoever may start `reassign_partitions` alone changes nothing of blue.
"""

from collections.abc import Callable
from typing import Any

from airflow.sdk import Param, dag

from kafka_maintenance.hooks import CLUSTER_DAG_MARK, cluster_of_dag
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.tasks.deadlines import APPROVAL_EXPIRES
from kafka_maintenance.tasks.settings import SETTINGS


def cluster_dag(*, schedule: Any, **arguments: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorator of a DAG with a param `cluster`, as `airflow.sdk.dag`: makes the common DAG, and one per cluster that has its own.

    Those have no schedule: the common one looks at all clusters, and opens their runs.
    """
    arguments["deadline"] = APPROVAL_EXPIRES

    def decorated(build: Callable[[], None]) -> Callable[[], None]:
        def make() -> None:
            common: Any = dag(schedule=schedule, **arguments)(build)
            common()
            for cluster in SETTINGS.cluster_dags:
                own: Any = dag(schedule=None, **_of_cluster(arguments, build.__name__, cluster))(build)
                own()

        return make

    return decorated


def dag_for(kind: str, cluster: str) -> str:
    """The DAG in which a plan of that kind and cluster is asked about."""
    return f"{kind}{CLUSTER_DAG_MARK}{cluster}" if cluster in SETTINGS.cluster_dags else kind


def require_dag_for(dag_id: str, cluster: str) -> None:
    """Refuses a run of another cluster's DAG, and one of the common DAG for a cluster that has its own.

    Raises:
        RefusedError: with the DAG to start.
    """
    own = cluster_of_dag(dag_id)
    wanted = dag_for(dag_id.partition(CLUSTER_DAG_MARK)[0], cluster)
    if own not in {None, cluster} or wanted != dag_id:
        raise RefusedError(
            f"nothing done on {cluster!r}: expected a run of {wanted}, found one of {dag_id}, whose rights are not those of that cluster; "
            f"start {wanted}"
        )


def _of_cluster(arguments: dict[str, Any], name: str, cluster: str) -> dict[str, Any]:
    param = Param(cluster, type="string", const=cluster, description="The cluster of this DAG")
    tags = ["manual" if tag == "scheduled" else tag for tag in arguments["tags"]]
    return {
        **arguments,
        "dag_id": dag_for(name, cluster),
        "tags": tags,
        "params": {**arguments["params"], "cluster": param},
    }
