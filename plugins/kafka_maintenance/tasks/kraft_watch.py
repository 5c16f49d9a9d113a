"""The watch on the day of a migration to KRaft as a task that waits without a worker."""

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context, task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import beginning_name, brokers_of, context_of_run
from kafka_maintenance.tasks.snapshots import snapshot_of_run

if TYPE_CHECKING:
    from kafka_maintenance.connections.clusters import Cluster
    from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
    from kafka_maintenance.operations.kraft.watch import Judgement

_AT_MOST = timedelta(days=14)
_PAUSE_S = 6
_TOOLS_OF = "3.9"

log = logging.getLogger(__name__)


@task(multiple_outputs=False)
def snapshot_of_phase(cluster: str, moment: str) -> dict[str, Any]:
    """The cluster's snapshot before or after a phase of its migration; a retry finds that of the first try, a clear takes another one."""
    found = snapshot_of_run(cluster, f"{beginning_name(context_of_run())}.{moment}")
    return {name: found[name] for name in ("cluster", "date", "snapshot")}


class WatchMigrationOperator(BaseOperator):
    """Looks at the cluster's tree, at what its brokers tell clients if the connection allows to ask, and at a copy of the metadata log if there is one; succeeds on *go*, fails on *go back*. Nothing is written.

    On *wait* it leaves the worker: the triggerer looks (`MigrationTrigger`), for two weeks at most. Nothing that the snapshot `before` holds may be lost.
    """

    template_fields = ("cluster", "metadata_log", "before")

    def __init__(self, *, cluster: str, metadata_log: str | None, before: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.cluster, self.metadata_log, self.before = cluster, metadata_log, before

    def execute(self, context: Context, event: str | None = None, until: str | None = None) -> dict[str, Any]:
        """The judgement that says *go*.

        Args:
            context: of the running task.
            event: why the triggerer woke it; None at the beginning.
            until: when it gives up, UTC; None at the beginning.

        Raises:
            AirflowFailException: go back; the message says what to do, and why. Or two weeks are over.
        """
        from kafka_maintenance.operations.kraft.watch import Advice, judgement_json, judgement_text
        from kafka_maintenance.tasks.triggers import MigrationTrigger

        del context
        end = datetime.fromisoformat(until) if until else datetime.now(UTC) + _AT_MOST
        if event is not None:
            log.info("looks again: %s", event)
        known = hooks.cluster(self.cluster)
        brokers = brokers_of(known, None)
        judgement = _judged(known, brokers, self.metadata_log, self.before)
        log.info("%s", judgement_text(judgement))
        if judgement.advice is Advice.WAIT and datetime.now(UTC) < end:
            trigger = MigrationTrigger(
                cluster=self.cluster,
                date=self.before["date"],
                snapshot=self.before["snapshot"],
                wants_go=self.metadata_log is None and brokers is None,
            )
            self.defer(trigger=trigger, method_name="execute", kwargs={"until": end.isoformat()})
        if judgement.advice is not Advice.GO:
            raise AirflowFailException(f"cluster {self.cluster!r}: {judgement_text(judgement)}")
        return judgement_json(judgement)


def _judged(
    known: "Cluster", brokers: "BrokersAsked | None", metadata_log: str | None, before: dict[str, Any]
) -> "Judgement":
    from kafka_maintenance.operations.kraft.brokers_say import ask_topics
    from kafka_maintenance.operations.kraft.drift import LogReader
    from kafka_maintenance.operations.kraft.watch import look, settled, watch
    from kafka_maintenance.tasks.triggers import tree_before

    log = LogReader(Path(metadata_log), _TOOLS_OF) if metadata_log else None
    since = tree_before(known.name, before["date"], before["snapshot"])
    ask = None if brokers is None else lambda: ask_topics(brokers)
    judged = watch(lambda: look(known.address, datetime.now(UTC)), lambda: time.sleep(_PAUSE_S), log, since, ask)
    return settled(judged)
