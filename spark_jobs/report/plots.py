"""The plots of a cluster's part of the report."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from spark_jobs.report.page import Plot

Rows = list[dict[str, Any]]
_SIZE = (9, 2.8)
_NAMES_SHOWN = 20
_RED, _BLUE, _DARK, _GREY = "#c0504d", "#4f81bd", "#1f3864", "#7f7f7f"


def plots(cluster: str, rows: Mapping[str, Rows]) -> dict[str, Plot]:
    """`load`, `imbalance` (where some leader is away) and `days` (of two or more) by name."""
    found = {}
    if any(row["imbalanced_count"] for row in rows["imbalance"]):
        found["imbalance"] = Plot("leader imbalance", _imbalance(cluster, rows["imbalance"]))
    if rows["broker_load"]:
        found["load"] = Plot("load per broker", _load(cluster, rows["broker_load"]))
    if len(rows["growth"]) > 1:
        found["days"] = Plot("the dates so far", _days(cluster, rows["growth"], rows["leader_churn"]))
    return found


def _imbalance(cluster: str, rows: Rows) -> Figure:
    ordered = sorted(rows, key=lambda row: row["broker_id"])
    figure, axes = _axes(f"{cluster}: share of preferred partitions that others lead")
    places = range(len(ordered))
    axes.bar(places, [row["ratio"] for row in ordered], width=0.8, color=_RED, label="now")
    after = [row["ratio_after_election"] for row in ordered]
    axes.bar(places, after, width=0.5, color=_GREY, label="after an election")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylim(0, None)
    _name_brokers(axes, [row["broker_id"] for row in ordered])
    return figure


def _load(cluster: str, rows: Rows) -> Figure:
    ordered = sorted(rows, key=lambda row: (row["rack"] or "", row["broker_id"]))
    figure, axes = _axes(f"{cluster}: partitions per broker, by rack")
    places = range(len(ordered))
    replicas = [row["replica_count"] for row in ordered]
    dead = [count * (not row["live"]) for count, row in zip(replicas, ordered, strict=True)]
    axes.bar(places, replicas, width=0.8, color=_BLUE, label="replicas")
    if any(dead):
        axes.bar(places, dead, width=0.8, color=_RED, label="replicas, not live")
    axes.bar(places, [row["leader_count"] for row in ordered], width=0.5, color=_DARK, label="leaders")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _name_brokers(axes, [row["broker_id"] for row in ordered])
    return figure


def _days(cluster: str, grown: Rows, churn: Rows) -> Figure:
    figure, axes = _axes(f"{cluster}: the dates so far")
    days = sorted(grown, key=lambda row: row["date"])
    held = [row["replicas_per_broker"] or 0 for row in days]
    axes.plot([row["date"] for row in days], held, color=_BLUE, marker="o")
    axes.set_ylabel("replicas per broker", color=_BLUE)
    axes.set_ylim(0, max(*held, 1) * 1.15)
    right = axes.twinx()
    changes = sorted(churn, key=lambda row: row["date"])
    right.bar([row["date"] for row in changes], [row["leader_changes"] for row in changes], width=0.3, color=_RED)
    right.set_ylabel("leader changes", color=_RED)
    right.yaxis.set_major_locator(MaxNLocator(integer=True))
    locator = AutoDateLocator(minticks=2, maxticks=10)  # type: ignore[no-untyped-call]  # matplotlib has no types here
    locator.intervald[3] = [1, 2, 7, 14]  # days, the finest that a daily report has
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # as above
    return figure


def _axes(title: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _name_brokers(axes: Any, brokers: Sequence[int]) -> None:
    every = max(1, len(brokers) // _NAMES_SHOWN)
    axes.set_xticks(range(0, len(brokers), every), [str(broker) for broker in brokers[::every]])
    axes.set_xlabel("broker")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
