"""The note of a gated run: what waits and for whom, and how it ended. Runs that schedules open bring theirs (`common.gated_run`).

A task cannot write the note of its run; a listener of the scheduler can, in the transaction in which the run starts or ends. What a person wrote
stays, and so does a note of ours that a person changed.
"""

import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from airflow.listeners import hookimpl
from sqlalchemy import inspect

from kafka_maintenance.operations.gate.airflow_record import GATE_TASK, GATED
from kafka_maintenance.tasks.common import NOTE_LETTERS_MAX

_KINDS: Final = {dag: kind for kind, dag in GATED.items()}
"""Common DAG → kind of the plans that its gate asks about."""
_WITHOUT_ACT_ONLY_REPORTS: Final = {"drain_isr_notifications", "retain_snapshots"}
_CHANGING: Final = ("apply_plan", "act_as_controller", "apply_restore", "remove_snapshots")
"""The task behind the gate, of which a DAG has one."""
_ANSWERED: Final = {"Approve": "approved", "Reject": "rejected"}
_WAITS, _ENDED, _FAILED = "waits for", "ended successfully", "failed"
_OURS: Final = re.compile(
    rf"(?P<run>(?P<kind>{'|'.join({*_KINDS, *_KINDS.values()})}) on (?P<cluster>[^\s,]+), .*?): (?:{_WAITS}|{_ENDED}|{_FAILED})\b.*",
    re.DOTALL,
)

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Writes whom the run waits for as it starts, and anew where it was cleared after its end.

    The policy is read in a thread of its own: the scheduler, which calls this in the middle of its work, forbids others to end its session.
    """
    who = (dag_run.triggering_user_name if dag_run.run_type == "manual" else None, dag_run.clear_number)

    def note() -> str | None:
        ours = _ours(dag_run)
        if ours is None and (dag_run.run_type != "manual" or dag_run.note):
            return None
        with ThreadPoolExecutor(max_workers=1) as other:
            if ours is not None:
                return other.submit(_waiting_again, ours, *who).result()
            return other.submit(note_of, dag_run.dag_id, dag_run.conf or {}, *who).result()

    _write(dag_run, note)


@hookimpl
def on_dag_run_success(dag_run: Any) -> None:
    """Writes how the run ended, where its note says for whom it waits."""
    _write(dag_run, lambda: _with_end(dag_run, _ENDED))


@hookimpl
def on_dag_run_failed(dag_run: Any) -> None:
    """Likewise, with the tasks that failed."""
    _write(dag_run, lambda: _with_end(dag_run, _FAILED))


def _write(dag_run: Any, note: Callable[[], str | None]) -> None:
    """Writes the note, unless there is none to write; never raises: the listeners of others must still be called."""
    try:
        text = note()
        if text is not None:
            dag_run.note = text[:NOTE_LETTERS_MAX]
    except Exception:
        log.exception("run %s of %s has no note", dag_run.run_id, dag_run.dag_id)


def _ours(dag_run: Any) -> re.Match[str] | None:
    """The parts of a note of ours that nobody changed: Airflow keeps which user wrote one."""
    state = inspect(dag_run, raiseerr=False)
    if state is not None and state.detached:  # a run of `dag.test`, which has no scheduler and no session of its own
        return None
    written = dag_run.dag_run_note
    return None if written is None or written.user_id is not None else _OURS.fullmatch(written.content)


def _waiting_again(ours: re.Match[str], started_by: str | None, clears: int) -> str:
    from kafka_maintenance.tasks.common import waits_for

    return f"{ours['run']}: {waits_for(_KINDS.get(ours['kind'], ours['kind']), ours['cluster'], started_by, clears)}"


def _with_end(dag_run: Any, how: str) -> str | None:
    """The note with what the tasks of the run say; None where it is not ours."""
    ours = _ours(dag_run)
    if ours is None:
        return None
    tasks = {each.task_id: each for each in dag_run.task_instances if each.map_index < 0}
    failed = sorted({each.task_id for each in dag_run.task_instances if each.state == "failed"})
    changed = [f"{name} {tasks[name].state}" for name in _CHANGING if name in tasks and tasks[name].try_number]
    receipt = "its receipt, if it wrote one," if {*failed} & {*_CHANGING} else "its receipt"
    what = f"{changed[0]}, {receipt} is on the page Plan of this run" if changed else "nothing was changed"
    at = f" at {', '.join(failed)}" if failed else ""
    return f"{ours['run']}: {how}{at}: {_answer(tasks.get(GATE_TASK))}; {what}"


def _answer(gate: Any) -> str:
    """Who answered the question: as Airflow keeps it, and of several who approve as the gate returned it, for Airflow keeps the last."""
    from airflow.models.hitl import HITLDetail

    session = None if gate is None else inspect(gate).session
    asked = None if session is None else session.get(HITLDetail, gate.id)
    if asked is None:
        return "approved by a rule" if gate is not None and gate.state == "success" else "nobody was asked"
    if not asked.responded_by:
        return "nobody answered in time"
    options = [_ANSWERED.get(option, option) for option in asked.chosen_options or ()]
    return f"{', '.join(options)} by {', '.join(_approvers(gate, session) or [asked.responded_by['name']])}"


def _approvers(gate: Any, session: Any) -> list[str]:
    """All who approved, in their order; none where it was rejected, or the gate did not come to its end."""
    from airflow.models.xcom import XComModel

    returned = XComModel.get_many(run_id=gate.run_id, key="return_value", task_ids=gate.task_id, dag_ids=gate.dag_id)
    values = [XComModel.deserialize_value(row) for row in session.scalars(returned)]
    return [str(name) for value in values for name in value.get("approved_by", ())]


def note_of(dag_id: str, conf: Mapping[str, Any], started_by: str | None, clears: int) -> str | None:
    """What a run waits for; None where it asks nobody.

    Args:
        dag_id: of the run.
        conf: of the run.
        started_by: who started it, as Airflow says.
        clears: how often it was cleared so far.
    """
    from kafka_maintenance.hooks import CLUSTER_DAG_MARK, cluster_of_dag
    from kafka_maintenance.tasks.common import waits_for

    common = dag_id.partition(CLUSTER_DAG_MARK)[0]
    cluster = conf.get("cluster") or cluster_of_dag(dag_id)
    if common not in _KINDS or not cluster or (common in _WITHOUT_ACT_ONLY_REPORTS and not conf.get("act")):
        return None
    waits = waits_for(_KINDS[common], cluster, started_by, clears)
    return f"{common} on {cluster}, started by {started_by or 'nobody that Airflow names'}: {waits}"
