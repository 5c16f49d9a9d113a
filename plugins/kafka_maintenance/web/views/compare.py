"""Two dates of a cluster, or two clusters, side by side."""

from collections.abc import Sequence

from kafka_maintenance.operations.analysis.overviews import COUNTS, Overview
from kafka_maintenance.web.blocks import Block, Cell, Choice, Column, Form, Note, Table, number

_WORDS = {
    "critical_count": "critical findings",
    "warning_count": "warnings",
    "info_count": "remarks",
    "topic_count": "topics",
    "partition_count": "partitions",
    "replica_count": "replicas",
    "broker_count": "brokers",
    "offline_count": "offline partitions",
    "under_replicated_count": "under-replicated partitions",
    "imbalanced_count": "partitions not led by the preferred leader",
    "ratio_max": "largest imbalance of a broker, %",
}


def compare_blocks(overviews: Sequence[Overview], chosen: Overview, name: str, against: str) -> list[Block]:
    """A form to choose a date or a cluster, and the table of the two where one is chosen.

    Args:
        overviews: of all dates there are.
        chosen: the run that the page shows.
        name: the cluster that the page shows.
        against: a date, or the name of a cluster; empty for none.
    """
    dates = [one.date for one in reversed(overviews) if name in one.clusters and one.date != chosen.date]
    at_date = next((one.clusters for one in overviews if one.date == chosen.date), chosen.clusters)
    others = sorted(at_date.keys() - {name})
    choices = [("", "nothing"), *((day, day) for day in dates), *((other, other) for other in others)]
    form = Form(
        action="cluster",
        button="Compare",
        fields=[Choice(name="against", label="Compare with", value=against, choices=choices)],
        hidden={"name": name, "date": chosen.date},
    )
    if not against:
        return [form]
    other = (
        at_date.get(against)
        if against in others
        else next((one.clusters.get(name) for one in overviews if one.date == against), None)
    )
    if other is None:
        return [form, Note(f"There is neither a date nor a cluster {against!r} to compare with.", "warning")]
    here = chosen.clusters[name]
    rows = []
    for field in COUNTS:
        scale = 100 if field == "ratio_max" else 1
        one, two = (None if counts.get(field) is None else scale * counts[field] for counts in (other, here))
        difference = None if one is None or two is None else two - one
        rows.append((Cell(_WORDS[field]), number(one), number(two), number(difference)))
    columns = (
        Column("Measure"),
        Column(against, numeric=True),
        Column(f"{name}, {chosen.date}", numeric=True),
        Column("Difference", numeric=True),
    )
    return [
        form,
        Table(id="comparison", caption=f"{name} on {chosen.date} compared with {against}", columns=columns, rows=rows),
    ]
