"""What a run planned, what its gate asked and what it was answered, kept in the store and in its audit chain.

Whoever can edit Airflow's records cannot write a yes, and whoever can write the store cannot sign one. Create-only: the plan
before the gate reads it, a question before anybody can answer it, each answer after it, a withdrawal at any time; of plans and
questions, the last of a run counts.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller_core.adapters.snapshot.manifest import ROOT, require_name, run_token
from controller_core.plans.plain import plain
from controller_core.ports.object_store import ObjectStore
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.gate.policy import Answered
from kafka_maintenance.operations.record.audit import AuditChain, UntrustedRecordError, refuse_removed, trusted_record
from kafka_maintenance.operations.record.receipts import is_begun, trusted_events

APPROVE: Final = "Approve"
_ASKED: Final = "-asked.json"
_PLANNED: Final = "-planned.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """The last question of a run's gate, with all that was answered to it.

    `question` has run, cluster, kind, digest, shown (hash of the text), requester and policy (hash); each of `answers` has
    user, options, comment, at (when it was recorded) and responded_at (when it was given, as Airflow says; ISO 8601); `withdrawn` has
    by, comment and at, or is None. Each has `code_version`, of the program that wrote it.
    """

    ask_id: str
    question: Mapping[str, Any]
    answers: tuple[Mapping[str, Any], ...]
    withdrawn: Mapping[str, Any] | None

    @property
    def approvals(self) -> tuple[Answered, ...]:
        """Those who said yes; none where somebody said no."""
        if any(list(each["options"]) != [APPROVE] for each in self.answers):
            return ()
        return tuple(Answered(str(each["user"]), str(each["comment"] or "")) for each in self.answers if each["user"])

    @property
    def rule(self) -> Mapping[str, Any] | None:
        """The rule of the policy that approved; None where a person answered, or nobody yet."""
        return self.answers[-1].get("rule") if self.answers else None

    @property
    def answered_at(self) -> datetime | None:
        """When the last answer was given, as Airflow says; of a rule when it was recorded."""
        given = (each.get("responded_at") or each["at"] for each in self.answers)
        return max(map(datetime.fromisoformat, given), default=None)


def keep_plan(store: ObjectStore, *, cluster: str, run: str, try_id: str, kind: str, digest: str) -> None:
    """Records which plan the task of a run has made or found, for the gate of that run.

    Args:
        store: where plans and receipts are.
        cluster: our name of it.
        run: the run whose gate is to ask.
        try_id: names the try of the task among those of the run, which sort in their order.
        kind: of the plan.
        digest: of the plan, SHA-256 in hex.

    Raises:
        ObjectStoreError, AuditSinkError: the gate shows nothing then.
    """
    record = {"run": run, "cluster": cluster, "kind": kind, "digest": digest, "code_version": __version__}
    AuditChain(store, cluster).append("planned", f"{_prefix(cluster, run)}{try_id}{_PLANNED}", record)


def planned(store: ObjectStore, *, cluster: str, run: str) -> Mapping[str, Any] | None:
    """What the run recorded as its plan, the last time that it planned; None where it recorded none.

    Raises:
        UntrustedRecordError: a record that the audit chain does not hold, or whose signature does not count.
    """
    last = _last(store, cluster, run, _PLANNED)
    return None if last is None else trusted_record(store, cluster, f"{_prefix(cluster, run)}{last}{_PLANNED}")


def keep_question(store: ObjectStore, *, cluster: str, run: str, ask_id: str, question: Mapping[str, Any]) -> None:
    """Records what is about to be shown.

    Args:
        store: where plans and receipts are.
        cluster: our name of it.
        run: the run whose gate asks.
        ask_id: names the question among those of the run, which sort in the order in which they were asked.
        question: kind, digest, shown, requester and policy.

    Raises:
        ObjectStoreError, AuditSinkError: nobody may be asked then.
    """
    record = {**question, "run": run, "cluster": cluster, "code_version": __version__}
    AuditChain(store, cluster).append("asked", f"{_prefix(cluster, run)}{ask_id}{_ASKED}", record)


def keep_answer(store: ObjectStore, *, cluster: str, run: str, ask_id: str, answer: Mapping[str, Any]) -> None:
    """Records one answer to that question: user, options, comment, at and, of a rule, its name and hash.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        run: of the DAG.
        ask_id: of the question.
        answer: what is recorded.

    Raises:
        ObjectMissingError: nothing was asked; the answer does not count then.
        ObjectStoreError: the store failed.
    """
    prefix = f"{_prefix(cluster, run)}{ask_id}"
    question = trusted_record(store, cluster, f"{prefix}{_ASKED}")
    given = len([key for key in store.list(prefix) if "-decided-" in key])
    said = {name: question[name] for name in ("run", "cluster", "kind", "digest", "shown")}
    record = {**answer, **said, "code_version": __version__}
    chain = AuditChain(store, cluster)
    chain.append("decided", f"{prefix}-decided-{given + 1:02d}.json", record)
    if answer["user"] and list(answer["options"]) != [APPROVE]:
        chain.append(
            "rejected", f"{_rejections(cluster, str(question['digest']))}{run_token(run)}-{ask_id}.json", record
        )


def withdraw(store: ObjectStore, *, cluster: str, run: str, by: str, comment: str | None, now: datetime) -> None:
    """Takes the approval of a run back; before the first write nothing is applied then.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        run: of the DAG.
        by: who asks.
        comment: of that person.
        now: the time, UTC.

    Raises:
        BadInputError: the gate of that run asked nothing.
        RefusedError: the plan was begun already; what was asked of Kafka cannot be taken back by us.
    """
    found = asked(store, cluster=cluster, run=run)
    if found is None:
        raise BadInputError(
            f"approval not withdrawn: the gate of run {run!r} of {cluster!r} asked nothing; name DAG.RUN_ID"
        )
    with suppress(UntrustedRecordError):  # a record of somebody else's holds up no withdrawal
        if was_begun(store, cluster, str(found.question["digest"])):
            raise RefusedError(
                f"approval of run {run!r} not withdrawn: its plan was begun, see its receipt; use Kafka's tools to cancel it"
            )
    ask_id = _last(store, cluster, run, _ASKED)
    record = {
        "by": by,
        "comment": comment,
        "at": now.isoformat(timespec="seconds"),
        "code_version": __version__,
        **{name: found.question[name] for name in ("run", "cluster", "kind", "digest")},
    }
    AuditChain(store, cluster).append("withdrawn", f"{_prefix(cluster, run)}{ask_id}-withdrawn.json", record)


def was_begun(store: ObjectStore, cluster: str, digest: str) -> bool:
    """Whether something was written for the plan of that digest, as its receipt says; errors: see `trusted_events`."""
    return is_begun(trusted_events(store, cluster, digest))


def asked(store: ObjectStore, *, cluster: str, run: str) -> Asked | None:
    """The last question of the run's gate with its answers; None where it asked nothing.

    Raises:
        UntrustedRecordError: a record that the audit chain does not hold, or whose signature does not count.
    """
    return next(questions(store, cluster=cluster, run=run), None)


def questions(store: ObjectStore, *, cluster: str, run: str) -> Iterator[Asked]:
    """All questions of the run's gate with their answers, the last one first; raises as `asked`."""
    for ask_id in reversed(_all(store, cluster, run, _ASKED)):
        prefix = f"{_prefix(cluster, run)}{ask_id}"
        keys = store.list(prefix)
        withdrawn = [key for key in keys if key.endswith("-withdrawn.json")]
        yield Asked(
            ask_id,
            trusted_record(store, cluster, f"{prefix}{_ASKED}"),
            tuple(trusted_record(store, cluster, key) for key in keys if "-decided-" in key),
            trusted_record(store, cluster, withdrawn[0]) if withdrawn else None,
        )


def refuse_removed_since(store: ObjectStore, *, cluster: str, run: str, ask_id: str) -> None:
    """Nothing where all that the run was asked and answered since that question, and what was withdrawn, still lies in the store.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        run: of the DAG.
        ask_id: of the last question that `asked` found.

    Raises:
        UntrustedRecordError: a record of that is missing, or an entry of the audit chain since then.
    """
    prefix = _prefix(cluster, run)
    refuse_removed(store, cluster, prefix, since=f"{prefix}{ask_id}{_ASKED}")


def rejections(store: ObjectStore, cluster: str, digest: str) -> tuple[Mapping[str, Any], ...]:
    """Who said no to the plan of that digest, in any run."""
    return tuple(trusted_record(store, cluster, key) for key in store.list(_rejections(cluster, digest)))


def refuse_rejected(store: ObjectStore, cluster: str, digest: str, after: str | None) -> None:
    """A plan that a person rejected is not offered again, unless the new request names the run of each rejection.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        digest: of the plan, SHA-256 in hex.
        after: the runs that the new request names, with commas; None: none.

    Raises:
        RefusedError: with the runs that are to be named.
        UntrustedRecordError: a rejection is missing that the audit chain names.
    """
    refuse_removed(store, cluster, _rejections(cluster, digest))
    named = {run.strip() for run in (after or "").split(",")}
    for each in rejections(store, cluster, digest):
        if each["run"] not in named:
            raise RefusedError(
                f"plan {digest[:12]} of {cluster!r} not offered again: {each['user']!r} rejected it at {each['at']} in run "
                f"{each['run']!r} ({plain(str(each['comment'] or 'no comment'))}); plan anew, or start a run whose after_rejection names that run"
            )


def _last(store: ObjectStore, cluster: str, run: str, ending: str) -> str | None:
    return max(_all(store, cluster, run, ending), default=None)


def _all(store: ObjectStore, cluster: str, run: str, ending: str) -> list[str]:
    prefix = _prefix(cluster, run)
    names = [key.removeprefix(prefix) for key in store.list(prefix)]
    return sorted(name.removesuffix(ending) for name in names if name.endswith(ending))


def _rejections(cluster: str, digest: str) -> str:
    return f"{ROOT}/rejections/cluster={require_name(cluster, 'cluster')}/{digest}/"


def _prefix(cluster: str, run: str) -> str:
    return f"{ROOT}/approvals/cluster={require_name(cluster, 'cluster')}/{run_token(run)}/"
