"""The trade-off curve of a plan on its page: what a wider tolerance would save."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Table, number


def trade_off(curve: Sequence[Mapping[str, Any]], own: Mapping[str, int], moves: int) -> Block:
    """The fewest moves at each tolerance, beside those of the plan.

    Args:
        curve: the points that the planner computed, by tolerance: with their fewest moves, or no more than a lower bound of these.
        own: the tolerance of the plan.
        moves: replicas that the plan copies.
    """
    bounds = [str(point["tolerance"]) for point in curve if not point["proven"]]
    said = (
        "Replicas copied at least, where replicas, leaders and the replicas of a topic may be so far off their mean on each broker. "
        f"This plan copies {moves:,}, with {own['replicas']} for replicas, {own['leaders']} for leaders and {own['topic']} for a topic."
    )
    if bounds:
        said += f" At {', '.join(bounds)} it may take more: only a lower bound is known."
    rows = [
        (
            number(point["tolerance"]),
            number(point["moves"]),
            Cell("yes") if point["proven"] else Cell("no, it may take more", "warning"),
            number(point["moves"] - moves),
        )
        for point in curve
    ]
    columns = (
        Column("Tolerance", numeric=True, words="By how many replicas a broker may be off the mean"),
        Column("Fewest moves", numeric=True),
        Column("Proven"),
        Column("Against this plan", numeric=True, words="Moves more, or fewer, than this plan"),
    )
    return figures.lines(
        "trade-off-curve",
        "Fewest moves by tolerance",
        said,
        [point["tolerance"] for point in curve],
        {"fewest moves": [point["moves"] for point in curve], "this plan": [moves] * len(curve)},
        head="tolerance",
        measure="replicas copied",
        table=Table(id="trade-off-curve-table", caption="Fewest moves by tolerance", columns=columns, rows=rows),
    )
