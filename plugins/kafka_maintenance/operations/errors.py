"""How an operation ends when it does not do what it was asked for: one class per thing that a caller handles differently."""

from collections.abc import Sequence

from controller_core.model.errors import ControllerCoreError
from controller_core.model.words import first_reasons
from controller_core.plans.checks import Unmet

_SHOWN_MAX = 10


class OperationError(ControllerCoreError):
    """Base of what the operations raise themselves."""


class BadInputError(OperationError):
    """What was named does not exist or cannot be read: correct it and call again."""


class RefusedError(OperationError):
    """Nothing was done, on purpose; the message says why and what would help."""


class AirflowUnreachableError(OperationError):
    """Airflow's API did not answer, or refused to: its record of a run was not read."""


class PlanChangedError(RefusedError):
    """The stored plan is not the one that was approved."""


class NothingToRestoreError(RefusedError):
    """The target holds already what a restore would write; `notes` say what was asked for and would be left out, so that not all is there."""

    def __init__(self, message: str, notes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes)


class PlanStaleError(RefusedError):
    """The cluster is not as the plan assumes; `reasons` has every difference."""

    def __init__(self, message: str, reasons: Sequence[Unmet]) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class ClusterBusyError(RefusedError):
    """Another run, or another tool's request, is at work on the cluster."""


class NotFinishedError(OperationError):
    """A request was made and its outcome has not been seen in time; the receipt has the record, a second run goes on."""


class StillUnderWayError(NotFinishedError):
    """Kafka works at a step, or a step waits to be asked for, and the caller has better to do than to wait: the same run goes on when it is
    called again.

    `step` counts from 0. Nothing is recorded of it: the request, or that it waits, stands in the record.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class LockLostError(NotFinishedError):
    """The session, and with it the lock, was lost before anything was written; the same run may take it again."""


class StoppedError(NotFinishedError):
    """Somebody asked the run to end, and it did so at a safe point; the receipt says what stays under way."""


class StoppedForGoodError(RefusedError):
    """A person asked the run to end; it is not tried again by itself, and goes on when somebody applies the plan again."""


def listed(reasons: Sequence[object]) -> str:
    """The first reasons as one text, with the number of the others."""
    return first_reasons(reasons, _SHOWN_MAX)
