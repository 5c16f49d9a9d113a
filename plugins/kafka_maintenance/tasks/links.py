"""Links from tasks to the pages of the cockpit, as extra links of Airflow: buttons on a task's page.

Airflow keeps a link as an XCom of the task that has ended. What parks or is deferred for hours pushes its links itself, at its beginning
(`push_links`): that is when a person looks for them. A mapped task has none: they would be a row of XCom for each cluster of a fleet.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Final, cast
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.configuration import conf

PAGES: Final = "/kafka-maintenance"
"""Where the pages lie in Airflow's API server."""


def address_of(path: str) -> str:
    """The address of a page of Airflow, below `[api] base_url`."""
    return cast("str", conf.get("api", "base_url", fallback="/")).rstrip("/") + path


class _PageLink(BaseOperatorLink):
    """A link to a page; what it needs of the task instance is the names of DAG and run."""

    title: ClassVar[str]

    @property
    def name(self) -> str:
        """The words of the button."""
        return self.title

    @abstractmethod
    def path(self, ti: Any) -> str:
        """The address of the page below that of Airflow."""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """The address, as Airflow's own links have it: below `[api] base_url`."""
        return address_of(self.path(ti_key))


class PlanLink(_PageLink):
    """The tab *Plan* of the run."""

    title = "Plan"

    def path(self, ti: Any) -> str:
        """See the base."""
        return _tab(ti, "plan")


class ReportLink(_PageLink):
    """The tab *Report* of the run."""

    title = "Report"

    def path(self, ti: Any) -> str:
        """See the base."""
        return _tab(ti, "report")


class ExecutionLink(_PageLink):
    """How far the plan of the run is."""

    title = "Execution"

    def path(self, ti: Any) -> str:
        """See the base."""
        return f"{PAGES}/run-execution?dag_id={quote(ti.dag_id, safe='')}&run_id={quote(ti.run_id, safe='')}"


class ClustersLink(_PageLink):
    """All clusters, the worst first."""

    title = "Clusters"

    def path(self, ti: Any) -> str:  # noqa: ARG002 - the same for every run
        """See the base."""
        return "/plugin/kafka-clusters"


def _tab(ti: Any, tab: str) -> str:
    return f"/dags/{quote(ti.dag_id)}/runs/{quote(ti.run_id)}/plugin/{tab}"


PLAN = (PlanLink(),)
PLAN_AND_EXECUTION = (PlanLink(), ExecutionLink())
REPORT_AND_CLUSTERS = (ReportLink(), ClustersLink())
CLUSTERS = (ClustersLink(),)


def linked(made: Any, links: tuple[BaseOperatorLink, ...]) -> Any:
    """The result of a task that is not mapped, whose operator now has these links."""
    made.operator.operator_extra_links = links
    return made


def push_links(context: Context, links: tuple[BaseOperatorLink, ...]) -> None:
    """Lets the links of a task that will wait be seen while it waits."""
    ti = context["ti"]
    for link in links:
        ti.xcom_push(key=link.xcom_key, value=link.get_link(cast("Any", ti.task), ti_key=cast("Any", ti)))
