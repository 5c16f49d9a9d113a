"""What differs between the Airflow versions that the pipeline runs on (3.2 and 3.3), and nothing else.

Airflow 3.1 is not supported: it has no partitioned runs, and the UTC date of an analysis is a partition key (docs/adr/0005).
"""

from typing import Any

from controller_core.model.errors import (
    ConnectionLostError,
    ControllerCoreError,
    SessionExpiredError,
    StoreUnreachableError,
    ZooKeeperUnreachableError,
)
from kafka_maintenance.operations.errors import NotFinishedError

TRANSIENT_ERRORS = (
    ConnectionLostError,
    SessionExpiredError,
    StoreUnreachableError,
    ZooKeeperUnreachableError,
    NotFinishedError,
)
"""Errors after which a task is tried again; any other error of ours gives the same answer however often it is asked."""


def retry_arguments() -> dict[str, Any]:
    """Arguments of a task that is tried again after transient errors only.

    Airflow 3.2 has no retry policy: there a task is tried again after every error, and ends with the same one.
    """
    try:
        from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    except ImportError:  # Airflow 3.2
        return {}
    transient = RetryRule(
        exception=list(TRANSIENT_ERRORS), action=RetryAction.RETRY, reason="the outside did not answer, or not yet"
    )
    final = RetryRule(
        exception=ControllerCoreError, action=RetryAction.FAIL, reason="asking again gives the same answer"
    )
    return {"retry_policy": ExceptionRetryPolicy(rules=[transient, final])}
