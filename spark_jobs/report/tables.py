"""The tables of a cluster's part of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller_core.model.words import counted, first_reasons
from spark_jobs.report.content import COMPARED, Changed, Rows
from spark_jobs.report.page import Table
from spark_jobs.report.today import GROUPS, in_order

_ROWS_SHOWN = 15
_REASONS_SHOWN = 3


def plan_in_words(plan: Mapping[str, Any] | None) -> str:
    """A proposal in a few words; empty where none was asked for."""
    if plan is None:
        return ""
    match plan["status"]:
        case "planned":
            proof = (
                "proven minimal" if plan["moves"] == plan["moves_lower_bound"] else f"bound {plan['moves_lower_bound']}"
            )
            return f"{plan['moves']} moves ({proof}), {plan['leader_changes']} leader changes"
        case None:
            return "not planned"
        case status:
            return f"{status}: {plan['reason']}" if plan["reason"] else str(status)


def plan_table(proposals: Rows) -> Table:
    """Why the plan moves what it moves, one line each; of no plan only why there is none."""
    title = "Proposed reassignment: "
    if not proposals:
        return Table(title, (), ())
    plan = proposals[0]
    planned = plan["status"] == "planned"
    lines = (plan["explanation"] or "").split("\n") if planned else ()
    files = (
        f"plans/{plan['cluster']}.plan.json, .rollback.json and .certificate.json; nothing is applied without a yes."
    )
    return Table(title + plan_in_words(plan), (), tuple((line,) for line in lines if line), files if planned else "")


def comparison_table(rows: Mapping[str, Rows]) -> Table:
    """The numbers of the cluster beside those of the snapshot before."""
    now, before = rows["cluster_summary"][:1], rows["cluster_summary_before"][:1]
    lines = []
    for name, words in COMPARED if now else ():
        was = before[0][name] if before else None
        lines.append((words, was, now[0][name], None if was is None else f"{now[0][name] - was:+d}"))
    since = f"since {before[0]['taken_at']:%Y-%m-%d %H:%M}" if before else "no earlier snapshot in the window"
    return Table(f"Compared with the day before ({since})", ("", "before", "now", "change"), tuple(lines))


def changed_table(changed: Changed | None) -> Table:
    """What no result tells: rights, secrets, configs and znodes, as the command `diff` prints it."""
    if changed is None:
        return Table("Changed besides topics and partitions: ", (), ())
    return Table("Changed besides topics and partitions", (), tuple((line,) for line in changed.lines))


def imbalance_table(rows: Rows) -> Table:
    """Brokers whose preferred partitions others lead."""
    head = ("broker", "live", "preferred for", "led by others", "share", "above the limit", "electable", "share after")
    ordered = sorted(rows, key=lambda row: (-row["ratio"], row["broker_id"]))
    names = ("broker_id", "live", "preferred_count", "imbalanced_count")
    lines = [
        (
            *(row[name] for name in names),
            _percent(row["ratio"]),
            row["triggers"],
            row["electable_count"],
            _percent(row["ratio_after_election"]),
        )
        for row in ordered
        if row["imbalanced_count"]
    ]
    cut = cut_table("Leader imbalance per broker, in partitions (the controller's own ratio)", head, lines)
    at_home = len(rows) - len(lines)
    note = f"{counted(at_home, 'broker')} lead all that they are preferred for." if at_home else ""
    return replace(cut, note=" ".join(filter(None, (cut.note, note))))


def not_electable_table(rows: Rows) -> Table:
    """Why preferred leaders cannot be elected, with counts."""
    lines = [(row["reason"], row["count"]) for row in rows if not row["electable"]]
    lines.sort(key=lambda line: (-line[1], str(line[0])))
    return cut_table("Why preferred leaders cannot be elected", ("reason", "partitions"), lines)


def deletions_table(rows: Rows) -> Table:
    """Topics queued for deletion, those that wait first."""
    ordered = sorted(rows, key=lambda row: (row["eligible"], row["topic"]))
    lines = []
    for row in ordered:
        shown = first_reasons([reason["text"] for reason in row["reasons"]], _REASONS_SHOWN)
        lines.append((row["topic"], row["partition_count"], "yes" if row["eligible"] else "no", shown, row["remedy"]))
    head = ("topic", "partitions", "eligible", "reasons", "what would help")
    return cut_table("Topics queued for deletion", head, lines)


def predictions_table(rows: Rows, queued: int) -> Table:
    """What the controller does with them, step by step."""
    lines = [(row["topic"], row["step"], row["effect"]) for row in sorted(rows, key=lambda r: (r["topic"], r["step"]))]
    cut = cut_table("What the controller will do with them", ("topic", "step", "effect"), lines)
    followed = len({row["topic"] for row in rows})
    note = f"Of {counted(queued, 'topic')} the first {followed} by name were followed." if queued > followed else ""
    return replace(cut, note=" ".join(filter(None, (cut.note, note))))


def findings_table(rows: Rows) -> Table:
    """Findings in the order in which they are read; what follows from another one stands beneath it."""
    lines = []
    for row in in_order(rows):
        where = "-".join(str(part) for part in (row["topic"], row["partition"]) if part is not None)
        first = f"{where}: {row['detail']}" if where else row["detail"]
        kind = row["kind"] if row["cause"] is None else f"└ {row['kind']}, follows from {row['cause']}"
        lines.append((row["severity"], kind, row["count"], first))
    return Table(f"Findings: {', '.join(GROUPS)}", ("severity", "kind", "count", "the first"), tuple(lines))


def restart_table(rows: Rows) -> Table:
    """What the failure, or the restart, of each single broker does."""
    head = ("broker", "safe to restart now", "because", "leaders that move", "broker that gains most")
    single = sorted((row for row in rows if row["scenario"] == "broker"), key=lambda row: row["rank"])
    lines = [
        (row["failed"][0], not (reasons := _against(row)), "; ".join(reasons) or "all that it leads is led by others then",
         row["leaders_moved_count"], _most(row))
        for row in single
    ]  # fmt: skip
    cut = cut_table("Failure drill: single brokers, the worst first", head, lines)
    safe = sum(bool(line[1]) for line in lines)
    return replace(
        cut, note=" ".join(filter(None, (cut.note, f"{safe} of {len(lines)} are safe to restart." * bool(lines))))
    )


def _against(row: dict[str, Any]) -> list[str]:
    """Why a broker must not be restarted now."""
    texts = {
        "offline_count": "offline",
        "under_min_isr_count": "below min ISR",
        "unclean_count": "elected uncleanly",
        "unreadable_count": "of a state that cannot be read",
    }
    return [f"{counted(row[name], 'partition')} {words}" for name, words in texts.items() if row[name]]


def _most(row: dict[str, Any]) -> str | None:
    gained = row["leaders_gained_max"]
    return f"{row['leaders_gained_max_broker']} (+{gained})" if gained else None


def drill_table(rows: Rows) -> Table:
    """What the failure of each rack and of the worst pairs does."""
    head = ("rank", "fails", "brokers", "partitions offline", "below min ISR", "elected uncleanly", "leaders that move",
            "broker that gains most")  # fmt: skip
    lines = [
        (
            row["rank"],
            row["scenario"],
            ", ".join(map(str, row["failed"]))
            if len(row["failed"]) < _ROWS_SHOWN
            else counted(len(row["failed"]), "broker"),
            row["offline_count"],
            row["under_min_isr_count"],
            row["unclean_count"],
            row["leaders_moved_count"],
            _most(row),
        )
        for row in sorted(rows, key=lambda row: row["rank"])
        if row["scenario"] != "broker"
    ]
    cut = cut_table("Failure drill: racks and pairs, the worst first", head, lines)
    unknown = max((row["unreadable_count"] for row in rows), default=0)
    note = (
        f"Up to {counted(unknown, 'partition')} of unreadable state left out: see unreadable_znode." if unknown else ""
    )
    return replace(cut, note=" ".join(filter(None, (cut.note, note))))


def dates_table(grown: Rows, churn: Rows, controllers: Rows) -> Table:
    """The dates of the window, the newest last."""
    changes = {row["date"]: row for row in churn}
    elections = {row["date"]: row["elections"] for row in controllers}
    lines = []
    days = sorted(grown, key=lambda row: row["date"])
    for row in days[-_ROWS_SHOWN:]:
        change = changes.get(row["date"], {})
        lines.append(
            (
                str(row["date"]),
                *(row[name] for name in ("topic_count", "partition_count", "broker_count", "replicas_per_broker")),
                *(change.get(name) for name in ("leader_changes", "isr_changes", "assignment_changes")),
                elections.get(row["date"]),
            )
        )
    head = ("date", "topics", "partitions", "brokers", "replicas per broker",
            "leader changes", "ISR changes", "assignment changes", "controller elections")  # fmt: skip
    earlier = len(days) - len(lines)
    note = f"{counted(earlier, 'earlier date')}: see the table's file." if earlier else ""
    return Table("The dates so far", head, tuple(lines) if len(lines) > 1 else (), note)


def unstable_table(rows: Rows) -> Table:
    """Partitions whose leader or ISR changes most."""
    names = ("leader_changes", "isr_changes", "leader_epoch_steps", "nights_under_replicated")
    ordered = sorted(rows, key=lambda row: (*(-(row[name] or 0) for name in names[:3]), row["topic"], row["partition"]))
    lines = [(f"{row['topic']}-{row['partition']}", *(row[name] for name in names)) for row in ordered]
    head = ("partition", "leader changes", "ISR changes", "leader epochs", "dates under-replicated")
    return cut_table("Partitions whose leader or ISR changes most", head, lines)


def brokers_table(rows: Rows) -> Table:
    """Brokers that flap, went away, or whose load moves."""
    head = ("broker", "days", "missing", "registrations", "flapping", "replicas first", "replicas last", "per date")
    names = ("broker_id", "nights_seen", "nights_missing", "registrations", "flapping", "replica_count_first",
             "replica_count_last", "replica_trend_per_night")  # fmt: skip
    moved = [row for row in rows if row["flapping"] or row["nights_missing"] or row["replica_trend_per_night"]]
    ordered = sorted(moved, key=lambda row: (-row["registrations"], -row["nights_missing"], row["broker_id"]))
    return cut_table(
        "Brokers that flap or whose load moves", head, [tuple(row[name] for name in names) for row in ordered]
    )


def cut_table(title: str, head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    """A table of the first rows, with the number of the others."""
    rest = len(rows) - _ROWS_SHOWN
    return Table(
        title, head, tuple(rows[:_ROWS_SHOWN]), f"{rest} more rows are in the table's file." if rest > 0 else ""
    )


def _percent(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0") + " %"
