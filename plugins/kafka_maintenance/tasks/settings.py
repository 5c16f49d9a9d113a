"""What the DAGs take from the environment: schedules, time limits and the scratch folder, with their defaults.

Nothing about a cluster is here: clusters are Airflow connections, listed in a Variable (see `hooks`).
"""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from croniter import CroniterError, croniter

from controller_core.plans.rules import is_whole_number
from kafka_maintenance.connections.clusters import ALARM_SEVERITIES

PREFIX = "KAFKA_MAINTENANCE_"
AFTER_SNAPSHOTS = "snapshots"
"""In the place of the analysis' cron: it runs when the snapshots of a date are announced."""

_TEXTS: Final = {
    "alarm_severity": ("|".join(ALARM_SEVERITIES), f"one of {', '.join(ALARM_SEVERITIES)}"),
    "driver_memory": (r"[1-9]\d*[kmgtKMGT]", "a number with a unit of Java, k, m, g or t, such as '2g'"),
}
"""Of a setting that is a text: what it may be, and how a message says so."""
_SECONDS_MAX: Final = 366 * 86400
"""A time limit of more is none, and so many seconds before or after today may be no date."""
_COUNT_MAX: Final = 100_000
"""Of days, weeks or months: beyond it lies no date."""


class SettingsError(ValueError):
    """An environment variable holds something that cannot be used; says which, what, and what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of all DAGs; every field has an environment variable `KAFKA_MAINTENANCE_<NAME>`.

    Crons have five fields and are read in UTC.
    """

    snapshot_cron: str = "30 1 * * *"
    analysis_cron: str = "0 3 * * *"
    drain_cron: str = "15 * * * *"
    drill_cron: str = "0 5 * * 0"
    check_cron: str = "0 4 * * 0"
    retention_cron: str = "0 6 * * 0"
    store_free_percent: int = 10
    keep_last: int = 7
    keep_daily: int = 14
    keep_weekly: int = 8
    keep_monthly: int = 12
    keep_analyses_days: int = 400
    keep_replaced_analyses_days: int = 14
    approval_timeout_s: int = 12 * 3600
    approval_reminder_s: int = 0
    snapshot_wait_s: int = 2 * 3600
    snapshot_late_s: int = 0
    analysis_timeout_s: int = 6 * 3600
    verify_timeout_s: int = 600
    poke_interval_s: int = 30
    patience_s: int = 2
    wake_after_s: int = 900
    busy_wait_s: int = 12 * 3600
    drain_age_min_s: int = 600
    alarm_severity: str = "critical"
    cluster_dags: tuple[str, ...] = ()
    driver_memory: str = "2g"
    clusters_per_task: int = 50
    drills_at_a_time: int = 2
    cluster_timeout_s: int = 3600
    snapshot_key_file: Path | None = None
    metrics_file: Path | None = None
    scratch: Path = Path(tempfile.gettempdir()) / f"kafka-maintenance-scratch-{os.getuid()}"

    @property
    def approval_timeout(self) -> timedelta:
        """How long a gate waits for a person before it counts as rejected."""
        return timedelta(seconds=self.approval_timeout_s)

    @property
    def cluster_timeout(self) -> timedelta:
        """How long one try of a task may take that concerns one cluster or one batch: a slow cluster delays nobody for ever."""
        return timedelta(seconds=self.cluster_timeout_s)

    @property
    def analysis_timeout(self) -> timedelta:
        """How long one try of the Spark job may take: Spark waits without end for a cluster that has no free worker."""
        return timedelta(seconds=self.analysis_timeout_s)

    def cron(self, name: str) -> str:
        """When the DAG runs whose cron has that name. It is checked here, so that a wrong one keeps no other DAG from being read.

        Raises:
            SettingsError: it has not five fields, cannot be read, or names no moment that ever comes.
        """
        text: str = getattr(self, f"{name}_cron")
        if not is_cron(text) and (name, text) != ("analysis", AFTER_SNAPSHOTS):
            raise SettingsError(
                f"{PREFIX}{name.upper()}_CRON not read: expected a cron of five fields such as '30 1 * * *', found {text!r}; this DAG is "
                "not read until it is corrected"
            )
        return text


def is_cron(text: str) -> bool:
    """Whether the text has five fields and names moments that come."""
    try:
        return len(text.split()) == 5 and bool(croniter(text, datetime.now(UTC)).get_next())  # noqa: PLR2004 - a cron's
    except CroniterError:
        return False


def settings_from(environment: Mapping[str, str]) -> Settings:
    """The settings that `environment` gives; what it does not name keeps its default.

    Raises:
        SettingsError: a number is not a whole one, or 0 where that is not the default, or beyond all sense, or a text or a name is none. A cron is
            told by its DAG (`Settings.cron`).
    """
    found: dict[str, str | int | Path | tuple[str, ...] | None] = {}
    for name, default in _defaults().items():
        variable = PREFIX + name.upper()
        text = environment.get(variable, "").strip()
        if not text:
            continue
        match default:
            case int() if name.startswith("keep_"):
                low = 1 if name == "keep_last" else 0
                found[name] = _number(variable, text, "how many to keep", low, _COUNT_MAX)
            case int():
                high = 99 if name.endswith("_percent") else _SECONDS_MAX
                found[name] = _number(variable, text, "a whole number", min(default, 1), high)
            case Path() | None:
                found[name] = Path(text)
            case tuple():
                found[name] = _names(variable, text)
            case _ if name.endswith("_cron"):
                found[name] = text
            case _:
                found[name] = _text(variable, text, *_TEXTS[name])
    return Settings(**found)  # type: ignore[arg-type]  # each value was made from the type of its default


def _defaults() -> dict[str, str | int | Path | tuple[str, ...] | None]:
    defaults = Settings()
    return {name: getattr(defaults, name) for name in Settings.__dataclass_fields__}


def _number(variable: str, text: str, what: str, low: int, high: int) -> int:
    if not is_whole_number(text, low, high):
        raise SettingsError(
            f"{variable} not read: expected {what}, {low} or more, {high} at most, found {text!r}; correct it"
        )
    return int(text)


def _names(variable: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names):
        raise SettingsError(f"{variable} not read: expected names of clusters with commas, found {text!r}; correct it")
    return names


def _text(variable: str, text: str, pattern: str, expected: str) -> str:
    if not re.fullmatch(pattern, text):
        raise SettingsError(f"{variable} not read: expected {expected}, found {text!r}; correct it")
    return text


SETTINGS = settings_from(os.environ)
