"""What the DAGs take from the environment: schedules, time limits and the scratch folder, with their defaults.

Nothing about a cluster is here: clusters are Airflow connections, listed in a Variable (see `hooks`).
"""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

PREFIX = "KAFKA_MAINTENANCE_"
AFTER_SNAPSHOTS = "snapshots"
"""In the place of the analysis' cron: it runs when the snapshots of a date are announced."""


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


def settings_from(environment: Mapping[str, str]) -> Settings:
    """The settings that `environment` gives; what it does not name keeps its default.

    Raises:
        SettingsError: a number is not a whole one, or not positive where it must be, a cron has not five fields, or a name is none.
    """
    found: dict[str, str | int | Path | tuple[str, ...] | None] = {}
    for name, default in _defaults().items():
        variable = PREFIX + name.upper()
        text = environment.get(variable, "").strip()
        if not text:
            continue
        match default:
            case int() if name.startswith("keep_"):
                found[name] = _count(variable, text, low=1 if name == "keep_last" else 0)
            case int():
                found[name] = _positive(variable, text)
            case _ if name == "analysis_cron" and text == AFTER_SNAPSHOTS:
                found[name] = text
            case Path() | None:
                found[name] = Path(text)
            case tuple():
                found[name] = _names(variable, text)
            case _ if name.endswith("_cron"):
                found[name] = _cron(variable, text)
            case _:
                found[name] = text
    return Settings(**found)  # type: ignore[arg-type]  # each value was made from the type of its default


def _defaults() -> dict[str, str | int | Path | tuple[str, ...] | None]:
    defaults = Settings()
    return {name: getattr(defaults, name) for name in Settings.__dataclass_fields__}


def _positive(variable: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(f"{variable} not read: expected a whole number above 0, found {text!r}")
    return int(text)


def _count(variable: str, text: str, *, low: int) -> int:
    if not text.isdecimal() or int(text) < low:
        raise SettingsError(
            f"{variable} not read: expected how many to keep, {low} or more, found {text!r}; correct it"
        )
    return int(text)


def _names(variable: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names):
        raise SettingsError(f"{variable} not read: expected names of clusters with commas, found {text!r}; correct it")
    return names


def _cron(variable: str, text: str) -> str:
    if len(text.split()) != 5:  # noqa: PLR2004 - a cron has five fields
        raise SettingsError(f"{variable} not read: expected a cron of five fields such as '30 1 * * *', found {text!r}")
    return text


SETTINGS = settings_from(os.environ)
