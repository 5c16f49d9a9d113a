"""What Airflow must know of the pipeline: its pages and its pools. Tasks, hooks and operators are plain imports."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from kafka_maintenance.tasks import pools, run_notes
from kafka_maintenance.tasks.links import PAGES


class PagesWhenAsked:
    """The pages as an ASGI app that is imported at the first request: workers load this plugin too, and need none."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        from kafka_maintenance.web.app import app  # noqa: PLC0415 - see the class

        await app(scope, receive, send)


class KafkaMaintenancePlugin(AirflowPlugin):
    """Registers the pages (two tabs of a run, four in the menu Browse), the listener that makes pools, and that of the notes of runs."""

    name = "kafka_maintenance"
    listeners: list[Any] = [pools, run_notes]  # noqa: RUF012 - Airflow's form
    fastapi_apps: list[Any] = [{"app": PagesWhenAsked(), "url_prefix": PAGES, "name": "Kafka maintenance"}]  # noqa: RUF012 - Airflow's form
    external_views: list[Any] = [  # noqa: RUF012 - Airflow's form
        {
            "name": "Kafka clusters",
            "href": f"{PAGES}/clusters",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka-clusters",
        },
        {
            "name": "Kafka approvals",
            "href": f"{PAGES}/approvals",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka-approvals",
        },
        {
            "name": "Kafka executions",
            "href": f"{PAGES}/executions",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka-executions",
        },
        {
            "name": "Kafka history",
            "href": f"{PAGES}/history",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka-history",
        },
        {
            "name": "Plan",
            "href": f"{PAGES}/plan?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "plan",
        },
        {
            "name": "Report",
            "href": f"{PAGES}/report?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "report",
        },
    ]
