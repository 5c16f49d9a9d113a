"""Which snapshots a run of the analysis reads: of each cluster of the Variable the newest whole one of the run's date."""

import logging
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypedDict

from airflow.sdk import PokeReturnValue, task
from airflow.sdk.exceptions import AirflowSkipException
from croniter import croniter

from kafka_maintenance import hooks
from kafka_maintenance.connections.fields import SettingsMissingError
from kafka_maintenance.tasks.common import context_of_run, day_of
from kafka_maintenance.tasks.settings import SETTINGS, is_cron

NOTE = "note"
_SNAPSHOTS_DAG = "snapshot_metadata"

log = logging.getLogger(__name__)


class ListedCluster(TypedDict):
    """A cluster of the Variable; `unusable` says why its settings cannot be read, or is None."""

    cluster: str
    archived: bool
    unusable: str | None


class ChosenSnapshot(TypedDict):
    """The name of a snapshot in the store."""

    cluster: str
    date: str
    snapshot: str


class MissingSnapshot(TypedDict):
    """A cluster without a usable snapshot of the date: whether the report names it, whether it is waited for, and why there is none."""

    cluster: str
    expected: bool
    awaited: bool
    note: str


class Choice(TypedDict):
    """What is analysed of a date, one snapshot per cluster, and what is not."""

    date: str
    snapshots: list[ChosenSnapshot]
    missing: list[MissingSnapshot]


@task
def listed_clusters() -> list[ListedCluster]:
    """The clusters that the Variable lists.

    Read once for a run: a sensor that waits would ask for every connection at each look.
    """
    return clusters_listed()


def clusters_listed() -> list[ListedCluster]:
    """As `listed_clusters`; one that has left ZooKeeper is archived."""
    from kafka_maintenance.operations.record.departures import readable_departures

    found: list[ListedCluster] = []
    left = readable_departures(hooks.store())
    for name in hooks.cluster_names():
        try:
            archived = hooks.cluster(name).archived or name in left.departures
            found.append({"cluster": name, "archived": archived, "unusable": left.damaged.get(name)})
        except SettingsMissingError as error:
            found.append({"cluster": name, "archived": False, "unusable": str(error)})
    return found


@task.sensor(mode="reschedule", poke_interval=SETTINGS.poke_interval_s, timeout=SETTINGS.snapshot_wait_s + 3600)
def choose_snapshots(listed: list[ListedCluster]) -> PokeReturnValue:
    """Of the `listed` clusters the newest whole snapshot of each cluster of the run's date.

    While the date is today, waits a bounded while for the clusters that are not archived; no longer than the run of
    `snapshot_metadata` that would bring them. A cluster without a snapshot is named with the nearest ones that exist; when
    no cluster has one, the run is skipped with that note.
    """
    context = context_of_run()
    day, now = day_of(context), datetime.now(UTC)
    choice = choice_of(day, listed)
    waited_for = [missing for missing in choice["missing"] if missing["awaited"]]
    until = context["dag_run"].start_date + timedelta(seconds=SETTINGS.snapshot_wait_s)
    if waited_for and day == now.date() and now < until and not snapshots_are_over(context["ti"], day, now):
        names = ", ".join(missing["cluster"] for missing in waited_for)
        log.info("date %s: waiting for the snapshot of %s until %s UTC", day, names, f"{until:%H:%M:%S}")
        return PokeReturnValue(is_done=False)
    note = " ".join(missing["note"] for missing in choice["missing"])
    if not choice["snapshots"]:
        text = f"date {day} not analysed: {note or 'no cluster is listed'}"
        context["ti"].xcom_push(key=NOTE, value=text)  # the tab Report shows it
        raise AirflowSkipException(text)
    log.info(
        "date %s: %d snapshots to analyse, of %d clusters none. %s",
        day,
        len(choice["snapshots"]),
        len(choice["missing"]),
        note,
    )
    return PokeReturnValue(is_done=True, xcom_value=choice)


def snapshots_are_over(ti: Any, day: date, now: datetime) -> bool:
    """Whether the scheduled run of `snapshot_metadata` of that date has ended, and no other is under way: what is missing then failed for good.

    Args:
        ti: the running task instance, which asks Airflow.
        day: the date that is waited for.
        now: the time, UTC.
    """
    if not is_cron(SETTINGS.snapshot_cron):
        return False
    fired = croniter(SETTINGS.snapshot_cron, now).get_prev(datetime)
    if fired.date() != day:
        return False
    under_way = ti.get_dr_count(dag_id=_SNAPSHOTS_DAG, states=["queued", "running"])
    ended = ti.get_dr_count(dag_id=_SNAPSHOTS_DAG, logical_dates=[fired], states=["success", "failed"])
    return bool(under_way == 0 and ended > 0)


def choice_of(day: date, listed: list[ListedCluster]) -> Choice:
    """What the store holds of the date of the `listed` clusters.

    One whose connection or whose snapshot cannot be used is missing, too, and not `awaited`: it does not hold up the others.
    An archived one is not even `expected`.
    """
    from kafka_maintenance.operations.snapshots.choice import NoSnapshotError, snapshots_of_date

    missing: list[MissingSnapshot] = [
        {"cluster": each["cluster"], "expected": True, "awaited": False, "note": f"{each['unusable']}."}
        for each in listed
        if each["unusable"] is not None
    ]
    archived = {each["cluster"]: each["archived"] for each in listed if each["unusable"] is None}
    found, errors = snapshots_of_date(hooks.store(), archived, day)
    for name, reason in errors.items():
        if isinstance(reason, NoSnapshotError):
            awaited = not archived[name]
            missing.append({"cluster": name, "expected": awaited, "awaited": awaited, "note": str(reason)})
        else:
            missing.append({"cluster": name, "expected": True, "awaited": False, "note": f"{reason}."})
    chosen: list[ChosenSnapshot] = [
        {"cluster": one.cluster, "date": one.date, "snapshot": one.snapshot_id} for one in found
    ]
    return {"date": day.isoformat(), "snapshots": chosen, "missing": missing}
