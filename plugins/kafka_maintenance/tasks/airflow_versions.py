"""What differs between the Airflow versions that the pipeline runs on (3.2 and 3.3), and nothing else.

Airflow 3.1 is not supported: it has no partitioned runs, and the UTC date of an analysis is a partition key (docs/adr/0005).
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow import __version__ as airflow_version
from airflow.sdk import Context
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

from controller_core.model.errors import (
    ConnectionLostError,
    ControllerCoreError,
    SessionExpiredError,
    StoreUnreachableError,
    ZooKeeperUnreachableError,
)
from kafka_maintenance.operations.errors import AirflowUnreachableError, NotFinishedError

try:
    from airflow.sdk import CronPartitionTimetable as CronPartitionTimetable  # noqa: PLC0414 - for those who schedule by it
except ImportError as error:  # Airflow 3.1
    raise ImportError(
        f"kafka-maintenance not loaded: expected Airflow 3.2 or newer, whose runs may have a partition key, found {airflow_version}; "
        "upgrade Airflow (docs/install.md)"
    ) from error

if TYPE_CHECKING:
    from airflow.providers.standard.operators.hitl import ApprovalOperator

TRANSIENT_ERRORS = (
    ConnectionLostError,
    SessionExpiredError,
    StoreUnreachableError,
    ZooKeeperUnreachableError,
    NotFinishedError,
    AirflowUnreachableError,
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


def ask(gate: "ApprovalOperator", context: Context) -> Any:
    """Opens the question of a gate; what Airflow shows from now on, as `subject` and `body`.

    Not `gate.execute`, which drops Airflow's reply: of a cleared gate, Airflow keeps subject and body.
    """
    question = CreateHITLDetailPayload(
        ti_id=context["ti"].id,
        options=gate.options,
        subject=gate.subject,
        body=gate.body,
        defaults=gate.defaults,
        multiple=gate.multiple,
        params=gate.serialized_params,
        assigned_users=gate.assigned_users or [],  # type: ignore[arg-type]  # pydantic takes the dicts
    )
    return task_runner.SUPERVISOR_COMMS.send(msg=question)


def parking(gate: "ApprovalOperator", context: Context) -> BaseException:
    """What a gate raises to wait until it is answered or its time is over; `execute_complete` then gets the answer.

    Airflow 3.3 knows a state for that. In 3.2 the triggerer waits, and the task is deferred.
    """
    resumed = "execute_complete"
    try:
        from airflow.sdk.exceptions import TaskAwaitingInput
    except ImportError:  # Airflow 3.2
        from airflow.providers.standard.triggers.hitl import HITLTrigger
        from airflow.sdk.exceptions import TaskDeferred

        waiting = HITLTrigger(
            ti_id=context["ti"].id,
            options=gate.options,
            defaults=gate.defaults,
            params=gate.serialized_params,
            multiple=gate.multiple,
            timeout_datetime=None if gate.response_timeout is None else datetime.now(UTC) + gate.response_timeout,
        )
        return TaskDeferred(trigger=waiting, method_name=resumed)
    return TaskAwaitingInput(method_name=resumed, timeout=gate.response_timeout)
