"""The watch on the day of a migration to KRaft as a task that waits without a worker."""

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import PokeReturnValue, task
from airflow.sdk.exceptions import AirflowFailException

from kafka_maintenance import hooks

_EVERY = timedelta(minutes=5)
_AT_MOST = timedelta(days=14)
_PAUSE_S = 6
_TOOLS_OF = "3.9"

log = logging.getLogger(__name__)


@task.sensor(mode="reschedule", poke_interval=_EVERY.total_seconds(), timeout=_AT_MOST.total_seconds())
def watch_migration(cluster: str, metadata_log: str | None) -> PokeReturnValue:
    """Looks twice at the cluster's tree; waits on *wait*, succeeds on *go*, fails on *go back*. Nothing is written.

    Raises:
        AirflowFailException: go back; the message says what to do, and why.
    """
    from kafka_maintenance.operations.kraft.watch import (
        Advice,
        judgement_json,
        judgement_text,
        look,
        registrations_in,
        settled,
        watch,
    )

    address = hooks.cluster(cluster).address
    registrations = registrations_in(Path(metadata_log), _TOOLS_OF) if metadata_log else None
    judgement = settled(watch(lambda: look(address, datetime.now(UTC)), lambda: time.sleep(_PAUSE_S), registrations))
    log.info("%s", judgement_text(judgement))
    if judgement.advice is Advice.GO_BACK:
        raise AirflowFailException(f"cluster {cluster!r}: {judgement_text(judgement)}")
    found: dict[str, Any] = judgement_json(judgement)
    return PokeReturnValue(is_done=judgement.advice is Advice.GO, xcom_value=found)
