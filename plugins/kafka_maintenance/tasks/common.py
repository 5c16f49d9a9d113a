"""What all tasks share: who owns them, when they are tried again, the date of a run, the label of a mapped task."""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Asset, Context, Param, get_current_context, task

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance import hooks
from kafka_maintenance.tasks.airflow_versions import retry_arguments
from kafka_maintenance.tasks.cluster_dags import dag_for, require_dag_for
from kafka_maintenance.tasks.notifiers import ring
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from kafka_maintenance.connections.clusters import Cluster
    from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked

OWNER = "kafka-maintenance"
GATE_DOC = (
    "Shows the plan and waits for a person, in the tab *Required Actions* of this task. "
    "Reject, or no answer within `KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S`: the plan is dropped and nothing is written."
)
GATED_RUNS_MAX = 256
"""Runs of one DAG at a time: one a cluster of a fleet. A run that waits for a person holds no slot of a worker or a pool."""
OPENING_RUNS: dict[str, Any] = {
    "task_id": "open_gated_runs",
    "skip_when_already_exists": True,
    "fail_when_dag_is_paused": True,
}
"""How `TriggerDagRunOperator` opens gated runs. One of a paused DAG would wait unseen, and start long after its plan."""
NOTE_LETTERS_MAX = 1000
"""What Airflow's database holds of the note of a run: Postgres refuses a longer one, and with it the run."""
CLUSTER_LABEL = "cluster {{ cluster_name }}"
"""`map_index_template` of a task that is mapped over clusters. The word before the name keeps it text where a DAG renders native values:
alone, the name "100" would become a number, which Airflow refuses as a label."""
SNAPSHOTS = Asset("kafka_metadata_snapshots")
WHATEVER_SUCCEEDED = "all_done_min_one_success"
"""Trigger rule of a task that goes on with the clusters whose mapped instances succeeded."""
_BEGINNING_LENGTH_MIN = 4
"""Letters of a key that is taken for the beginning of a param."""


def refuse_misspelt(context: Context) -> None:
    """Refuses a run whose conf has a key that almost is a param: Airflow ignores it, and the run would plan something else than was asked for.

    Other keys, say of a ticket or of a lineage, are for others. The first tasks of a run ask; what is begun goes on, also where an upgrade has
    renamed a param since.

    Raises:
        BadInputError: with the param that was meant.
    """
    from kafka_maintenance.operations.errors import BadInputError

    if context["task"].upstream_task_ids:
        return
    run, params = context["dag_run"], sorted(context["dag"].params)
    for key in sorted(set(run.conf or {}) - set(params)):
        meant = {name[: len(key)]: name for name in params if len(key) >= _BEGINNING_LENGTH_MIN} | dict(
            zip(params, params, strict=True)
        )
        found = get_close_matches(key.lower().replace("-", "_"), meant, n=1, cutoff=0.85)
        if found:
            raise BadInputError(
                f"run {run.run_id!r} of {run.dag_id} not begun: expected params of the DAG in the conf, {', '.join(params)}, found {key!r}, which "
                f"Airflow ignores; start a run with {meant[found[0]]!r}"
            )


DEFAULT_ARGS: dict[str, Any] = {
    "owner": OWNER,
    "pre_execute": refuse_misspelt,
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "on_failure_callback": ring,
    **retry_arguments(),
}


def given(param: str) -> str:
    """The template of one of a run's params, for DAGs that render native values: text stays text.

    Native rendering reads what is rendered as a Python literal: the cluster 42 would become a number without its quotes, and JSON's
    escapes of a letter beyond U+FFFF two halves that no UTF-8 can hold.
    """
    name = f"params.{param}"
    return f"{{{{ '%r' | format({name}) if {name} is string else {name} }}}}"


def digest_param(description: str) -> Param:
    """A param that names a plan, or nothing: Airflow refuses another text in the form, and nothing runs."""
    return Param(None, type=["string", "null"], pattern="^[0-9a-f]{64}$", description=description)


def gated_run(kind: str, why: str, day: date | str, cluster: str, what: str, **conf: Any) -> dict[str, Any]:
    """What `TriggerDagRunOperator` needs to open a gated run of `cluster`; its name says what for, so it is opened once.

    Args:
        kind: of the plan, which is the id of its common DAG.
        why: what opens it.
        day: for which it is opened.
        cluster: whose plan it is.
        what: tells it from other runs of that day and cluster.
        conf: of the run.
    """
    named = {"trigger_dag_id": dag_for(kind, cluster), "trigger_run_id": f"{why}__{day}__{cluster}__{what}"}
    note = f"{kind} on {cluster}, for {why} {what} of {day}: {waits_for(kind, cluster)}"
    return {**named, "note": note[:NOTE_LETTERS_MAX], "conf": {"cluster": cluster, **conf}}


def waits_for(kind: str, cluster: str, started_by: str | None = None, clears: int = 0) -> str:
    """Whose approval a run waits for that was cleared so often, in the words of its note.

    A policy that cannot be read keeps no run from being started: the gate itself says why it cannot ask.

    Args:
        kind: of the plan.
        cluster: whose plan it is.
        started_by: who started the run; None: a schedule or another run.
        clears: how often the run was cleared.
    """
    try:
        policy = hooks.policy_for(cluster)
        return f"waits for {policy.who_approves(kind, policy.requester(started_by, clears))}"
    except ControllerCoreError as error:
        return f"waits for an approval, and whose is not known: {error}"


@task
def clusters_to_look_at(cluster: str | None) -> list[str]:
    """All clusters that the Variable lists, archived ones too, or the one that was named."""
    return [cluster] if cluster else list(hooks.cluster_names())


def batches(names: Sequence[str]) -> list[list[str]]:
    """The clusters in groups of `KAFKA_MAINTENANCE_CLUSTERS_PER_TASK`: work that mostly finds nothing is not worth a task each."""
    size = SETTINGS.clusters_per_task
    return [list(names[first : first + size]) for first in range(0, len(names), size)]


def brokers_of(cluster: "Cluster", bootstrap_servers: str | None) -> "BrokersAsked | None":
    """The brokers that a run may ask: those of the connection, or of these the ones that the run names; None where neither names any.

    Whoever starts a run chooses no server that gets the login of the connection: where that names no brokers, those of the run are asked
    without its client settings.

    Raises:
        BadInputError: the run names a server that the connection does not.
    """
    from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
    from kafka_maintenance.operations.errors import BadInputError

    known, named = (
        [server.strip() for server in (text or "").split(",") if server.strip()]
        for text in (cluster.bootstrap_servers, bootstrap_servers)
    )
    foreign = [server for server in named if server not in known] if known else []
    if foreign:
        raise BadInputError(
            f"brokers of {cluster.name!r} not asked: expected bootstrap_servers among those of its connection, {', '.join(known)}, found "
            f"{', '.join(foreign)}; leave the param empty, or have the connection name them"
        )
    servers, client = ",".join(named or known), cluster.client_settings if known else None
    return BrokersAsked(servers, client or None) if servers else None


def context_of_run() -> dict[str, Any]:
    """The context of the running task, as a mapping that may be extended."""
    return cast("dict[str, Any]", get_current_context())


def run_name(context: dict[str, Any]) -> str:
    """Names a run among those of all DAGs, in snapshots, receipts and locks."""
    run = context["dag_run"]
    return f"{run.dag_id}.{run.run_id}"


def try_name(context: dict[str, Any]) -> str:
    """Names a try of a task among those of its run, which sort in their order: by a UUIDv7, fresh after a clear and mostly after a failure, then by number."""
    return f"{context['ti'].id}-{context['ti'].try_number:04d}"


def start_name(context: dict[str, Any]) -> str:
    """Names the tries of a task that nobody asked for anew: a clear raises `max_tries`, a retry and a deferral leave it, and a run that was
    deleted and made again under its id begins at another time.
    """
    return f"{run_name(context)}:{_began(context)}:{context['ti'].max_tries}"


def beginning_name(context: dict[str, Any]) -> str:
    """Names what a run reads anew after each clear, and where it was deleted and made again under its id; a retry finds it by the same name."""
    return f"{run_name(context)}.{_began(context)}.{context['dag_run'].clear_number + 1}"


def is_beginning_of(run: str, name: str) -> bool:
    """Whether the run, or one of its id that was deleted since, has or had that `beginning_name`; before release 0.2 it was that of the run, or had its date behind it."""
    return re.fullmatch(rf"{re.escape(run)}(\.\d{{8}}T\d{{12}}\.\d+|\.\d{{4}}-\d\d-\d\d)?", name) is not None


def _began(context: dict[str, Any]) -> str:
    """When the run began, which a retry leaves."""
    run = context["dag_run"]
    return f"{run.start_date or run.run_after:%Y%m%dT%H%M%S%f}"


def cluster_of_run(context: dict[str, Any]) -> str:
    """The cluster that the run was started for, by its own conf: tasks do not tell each other.

    Raises:
        RefusedError: see `require_dag_for`.
    """
    cluster = str(context["params"]["cluster"])
    require_dag_for(context["dag_run"].dag_id, cluster)
    return cluster


def label(cluster: str) -> None:
    """Names the mapped instance of the running task in the UI (`CLUSTER_LABEL`)."""
    context_of_run()["cluster_name"] = cluster


def day_of(context: dict[str, Any]) -> date:
    """The UTC date that a run is for: its partition key, else that of the snapshots that started it, else its logical date, else when it was due.

    Raises:
        BadInputError: the partition key, or what an event of the asset says, is no date: whoever starts a run or makes an event may write them.
    """
    run = context["dag_run"]
    key = getattr(run, "partition_key", None)
    if key:
        return _date_in(key, run, "its partition key")
    events = [event for of_asset in (context.get("triggering_asset_events") or {}).values() for event in of_asset]
    dates = [str(event.extra["date"]) for event in events if event.extra and "date" in event.extra]
    if dates:
        return _date_in(max(dates), run, f"the date of the newest event of {SNAPSHOTS.name}")
    moment = getattr(run, "logical_date", None) or run.run_after
    return cast("date", moment.date())


def _date_in(text: str, run: Any, what: str) -> date:
    from kafka_maintenance.operations.errors import BadInputError

    try:
        return date.fromisoformat(text[:10])
    except ValueError as error:
        raise BadInputError(
            f"run {run.run_id!r} of {run.dag_id} not begun: expected a UTC date, YYYY-MM-DD, as {what}, found {text!r}; "
            "start a run with such a partition key, or with none for today"
        ) from error
