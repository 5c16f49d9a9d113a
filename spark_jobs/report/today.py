"""What an operator reads first: what needs a person, what a yes repairs, what changed since the day before."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller_core.model.words import counted, first_reasons
from spark_jobs.report.content import COMPARED, Page, Rows
from spark_jobs.severities import SEVERITIES

GROUPS = ("broker or controller down", "offline", "below min ISR", "at risk", "hygiene")
"""The order of findings; each kind belongs to one."""
_GROUP_OF: Mapping[str, int] = {
    **dict.fromkeys(("broker_down", "controller_not_registered", "no_controller"), 0),
    **dict.fromkeys(("offline", "leader_outside_isr", "log_dir_offline"), 1),
    **dict.fromkeys(("under_min_isr", "min_isr_unreachable"), 2),
    **dict.fromkeys(
        ("under_replicated", "unreadable_znode", "stale_isr_change", "stale_log_dir_event", "empty_reassignment_target",
         "disk_nearly_full", "single_replica", "min_isr_equals_replication_factor", "unclean_election_allowed", "stuck_reassignment",
         "analysis_disagrees", "kraft_migration"),
        3,
    ),
}  # fmt: skip
_SHOWN = 3


def group_of(kind: str) -> int:
    """The place of a finding's kind in `GROUPS`; what is named nowhere is hygiene."""
    return _GROUP_OF.get(kind, len(GROUPS) - 1)


def in_order(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Findings as they are read: by group, then severity; what follows from another one right after that."""
    alone = [row for row in findings if row["cause"] is None]
    following = [row for row in findings if row["cause"] is not None]
    ordered: list[Mapping[str, Any]] = []
    for row in sorted(alone, key=_place):
        ordered.append(row)
        if row["kind"] not in {each["kind"] for each in ordered[:-1]}:
            ordered += sorted((one for one in following if _kind_of(one["cause"]) == row["kind"]), key=_place)
    return ordered + [row for row in following if row not in ordered]


def first_lines(page: Page, clusters: Iterable[str]) -> tuple[str, ...]:
    """The three lines, of one cluster or of all; none where findings were not looked for."""
    if "findings" not in page.rows:
        return ()
    chosen = list(clusters)
    named = len(page.order) > 1
    needed = [found for cluster in chosen for found in _needs_a_person(page.by_cluster[cluster], cluster * named)]
    needed.sort(key=lambda found: found[0])  # of all clusters: one that is down stands before what is at risk elsewhere
    yes = [text for cluster in chosen for text in _repaired_by_a_yes(page.by_cluster[cluster], cluster)]
    changed = [text for cluster in chosen for text in _changed(page, cluster, cluster * named)]
    return (
        f"Needs a person today: {_listed([text for _, text in needed]) or 'nothing'}.",
        f"Can be repaired by a yes: {_listed(yes) or 'nothing'}.",
        f"Changed since the day before: {_listed(changed) or 'nothing that is counted here'}.",
    )


def _needs_a_person(rows: Mapping[str, Rows], cluster: str) -> Iterator[tuple[int, str]]:
    """Critical findings that stand alone, each with its group."""
    for row in in_order(rows["findings"]):
        if row["severity"] != SEVERITIES[0] or row["cause"] is not None:
            continue
        where = "-".join(str(part) for part in (row["topic"], row["partition"]) if part is not None)
        more = f" (and {row['count'] - 1:,} more {row['kind']})" if row["count"] > 1 else ""
        text = f"{where}: {row['detail']}{more}" if where else f"{row['detail']}{more}"
        yield group_of(row["kind"]), _of(cluster, text)


def _repaired_by_a_yes(rows: Mapping[str, Rows], cluster: str) -> Iterator[str]:
    electable = sum(row["electable_count"] for row in rows["imbalance"])
    if electable:
        yield f"{cluster}: {counted(electable, 'preferred-leader election')}"
    for plan in rows["proposals"]:
        if plan["status"] == "planned":
            yield f"{cluster}: {counted(plan['moves'], 'replica move')} (plans/{cluster}.plan.json)"


def _changed(page: Page, cluster: str, named: str) -> Iterator[str]:
    rows, parts = page.by_cluster[cluster], []
    if rows["cluster_summary"] and rows["cluster_summary_before"]:
        now, before = rows["cluster_summary"][0], rows["cluster_summary_before"][0]
        parts = [f"{words} {now[name] - before[name]:+,d}" for name, words in COMPARED if now[name] != before[name]]
    if told := page.changed.get(cluster):
        parts += [f"{heading}: {number:,}" for heading, number in told.counts.items()]
    if parts:
        yield _of(named, ", ".join(parts))


def _of(cluster: str, text: str) -> str:
    return f"{cluster}: {text}" if cluster else text


def _listed(texts: list[str]) -> str:
    return first_reasons(texts, _SHOWN) + (", below" if len(texts) > _SHOWN else "")


def _place(row: Mapping[str, Any]) -> tuple[int, int, str]:
    return group_of(row["kind"]), SEVERITIES.index(row["severity"]), row["kind"]


def _kind_of(cause: str) -> str:
    return cause.partition(" ")[0]
