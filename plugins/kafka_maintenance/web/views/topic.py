"""The page Topic: partitions, where their replicas lie, configs, and since when; and the list of topics that leads to it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.model.errors import ObjectMissingError
from controller_core.model.words import counted
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, find_snapshot, newest_snapshot
from kafka_maintenance.operations.snapshots.catalog import read_table as read_snapshot_table
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Choice, Column, Facts, Form, Note, Page, Section, Table, number

TOPICS_SHOWN_MAX: Final = 200
PARTITIONS_SHOWN_MAX: Final = 2000


def topics_table(store: ObjectStore, cluster: str, date: str, snapshot_id: str | None, text: str) -> list[Block]:
    """The topics of a snapshot whose name contains `text`, and a form that changes it.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        date: that the page shows, which stays.
        snapshot_id: of the cluster; None where the analysis does not tell it.
        text: part of a name; empty: all.
    """
    if snapshot_id is None:
        return [Note("The analysis did not make the summary that names its snapshot.")]
    form = Form(
        action="cluster",
        button="Find",
        fields=[Choice(name="topic", label="Topics that contain", value=text)],
        hidden={"name": cluster, "date": date},
    )
    try:
        topics = _table(store, find_snapshot(store, snapshot_id, cluster), "topics")
    except ObjectMissingError as error:
        return [Note(f"The snapshot is gone, retention removes old ones: {error}")]
    except UNUSABLE as error:
        return [Note(str(error), "warning")]
    found = topics.filter(pc.match_substring(topics["topic"], text)) if text else topics
    shown = found.slice(0, TOPICS_SHOWN_MAX).to_pylist()
    rows = [
        (
            Cell(row["topic"], href=f"topic?{urlencode({'cluster': cluster, 'name': row['topic']})}"),
            number(row["partition_count"]),
            Cell(f"{row['ctime']:%Y-%m-%d %H:%M}" if row["ctime"] else "-"),
            Cell(f"{row['mtime']:%Y-%m-%d %H:%M}" if row["mtime"] else "-"),
            Cell("yes", "warning") if row["deletion_requested"] else Cell("no", "quiet"),
        )
        for row in shown
    ]
    columns = (
        Column("Topic"),
        Column("Partitions", numeric=True),
        Column("Created, UTC"),
        Column("Assignment changed, UTC"),
        Column("Queued for deletion"),
    )
    more = found.num_rows - len(shown)
    return [
        form,
        Table(
            id="topics",
            caption=f"{counted(found.num_rows, 'topic')}",
            columns=columns,
            rows=rows,
            more=more,
            empty="No topic has such a name.",
        ),
    ]


def topic_page(store: ObjectStore, cluster: str, name: str) -> Page:
    """One topic in the newest snapshot of a cluster.

    Raises:
        ObjectMissingError: there is no snapshot, or the topic is not in it.
        ObjectStoreError: the store cannot be read.
    """
    manifest = newest_snapshot(store, cluster)
    if manifest is None:
        raise ObjectMissingError(
            f"topic {name!r} not shown: cluster {cluster!r} has no snapshot in {store.uri!r}; take one"
        )
    topics = _of_topic(store, manifest, "topics", name)
    if not topics:
        raise ObjectMissingError(
            f"topic {name!r} not shown: snapshot {manifest.snapshot_id} of {cluster!r} has no topic of that name; look for it in the "
            "list of topics"
        )
    topic = topics[0]
    partitions = sorted(_of_topic(store, manifest, "partitions", name), key=lambda row: row["partition"])
    brokers = {row["broker_id"]: row["rack"] for row in _table(store, manifest, "brokers").to_pylist()}
    configs = _configs(store, manifest, name)
    facts = Facts(
        (
            ("Partitions", number(topic["partition_count"])),
            ("Created", Cell(f"{topic['ctime']:%Y-%m-%d %H:%M} UTC" if topic["ctime"] else "-")),
            ("Topic id", Cell(topic["topic_id"] or "-")),
            ("Queued for deletion", Cell("yes", "warning") if topic["deletion_requested"] else Cell("no")),
            ("Without leader", _bad(sum(row["leader"] is None or row["leader"] < 0 for row in partitions))),
            ("Under-replicated", _bad(sum(bool(_lagging(row)) for row in partitions))),
        )
    )
    subject = urlencode({"cluster": cluster, "subject": name})
    return Page(
        title=name,
        subtitle=f"Snapshot {manifest.snapshot_id}, taken {manifest.taken_at:%Y-%m-%d %H:%M} UTC",
        here="cluster",
        trail=(("Clusters", "clusters"), (cluster, f"cluster?{urlencode({'name': cluster})}")),
        head=(facts,),
        sections=[
            Section(title="Partitions", anchor="partitions", blocks=[_partitions(partitions, brokers)]),
            Section(title="Where the replicas are", anchor="replicas", blocks=_spread(partitions, brokers)),
            Section(title="Configs", anchor="configs", blocks=[configs]),
            Section(
                title="Since when",
                anchor="blame",
                blocks=[
                    Table(
                        id="blame-link",
                        caption="History",
                        columns=(Column("What"),),
                        rows=[(Cell(f"Which snapshot first shows each value of {name}", href=f"history?{subject}"),)],
                    )
                ],
            ),
        ],
    )


def _lagging(row: dict[str, Any]) -> list[int]:
    """As `spark_jobs.transforms.partition_findings.lagging`: replicas outside the ISR, those being added apart; none without a state."""
    in_sync = row["isr"]
    return (
        [] if in_sync is None else [b for b in row["replicas"] if b not in in_sync and b not in (row["adding"] or ())]
    )


def _bad(count: int) -> Cell:
    return number(count, tone="critical" if count else "good")


def _partitions(partitions: Sequence[dict[str, Any]], brokers: dict[int, str | None]) -> Table:
    rows = []
    for row in partitions[:PARTITIONS_SHOWN_MAX]:
        leader = row["leader"]
        missing = _lagging(row)
        no_leader = leader is None or leader < 0
        rows.append(
            (
                Cell(str(row["partition"]), value=row["partition"]),
                Cell(", ".join(map(str, row["replicas"]))),
                Cell("none", "critical")
                if no_leader
                else Cell(str(leader), None if leader == row["preferred_leader"] else "warning"),
                Cell(", ".join(map(str, row["isr"] or ()))),
                Cell(", ".join(map(str, missing)), "warning" if missing else None),
                Cell(", ".join(sorted({str(brokers.get(broker) or "-") for broker in row["replicas"]}))),
                Cell(
                    ", ".join(f"+{broker}" for broker in row["adding"] or ())
                    + " "
                    + ", ".join(f"-{broker}" for broker in row["removing"] or ())
                ),
                number(row["leader_epoch"]),
                Cell(f"{row['state_mtime']:%Y-%m-%d %H:%M}" if row["state_mtime"] else "-"),
            )
        )
    columns = (
        Column("Partition", numeric=True),
        Column("Replicas"),
        Column("Leader", words="amber: not the preferred one"),
        Column("ISR"),
        Column("Not in sync", words="replicas outside the ISR, those being added apart"),
        Column("Racks"),
        Column("Reassigning"),
        Column("Leader epoch", numeric=True),
        Column("State since, UTC"),
    )
    return Table(
        id="partitions-table",
        caption="Partitions",
        columns=columns,
        rows=rows,
        searchable=True,
        more=len(partitions) - len(rows),
    )


def _spread(partitions: Sequence[dict[str, Any]], brokers: dict[int, str | None]) -> list[Block]:
    held = Counter(broker for row in partitions for broker in row["replicas"])
    led = Counter(row["leader"] for row in partitions if row["leader"] is not None and row["leader"] >= 0)
    ids = sorted(held | led)
    per_broker = figures.bars(
        "per-broker",
        "Replicas and leaders by broker",
        f"{len(ids)} of {len(brokers)} brokers hold replicas of this topic.",
        head="broker",
        names=[str(broker) for broker in ids],
        series={"replicas": [held[broker] for broker in ids], "leaders": [led[broker] for broker in ids]},
    )
    racks = Counter(str(brokers.get(broker) or "no rack") for row in partitions for broker in row["replicas"])
    names = sorted(racks)
    per_rack = figures.bars(
        "per-rack",
        "Replicas by rack",
        f"{len(names)} racks hold replicas of this topic.",
        head="rack",
        names=names,
        series={"replicas": [racks[rack] for rack in names]},
    )
    return [per_broker, per_rack]


def _configs(store: ObjectStore, manifest: Manifest, name: str) -> Table:
    table = _table(store, manifest, "configs")
    of_topic = pc.and_(pc.equal(table["entity_type"], "topics"), pc.equal(table["entity_name"], name))
    rows = [(Cell(row["key"]), Cell(str(row["value"]))) for row in table.filter(of_topic).to_pylist()]
    return Table(
        id="configs-table",
        caption="Settings of the topic itself",
        columns=(Column("Config"), Column("Value")),
        rows=rows,
        empty="None: the brokers' defaults hold.",
    )


def _of_topic(store: ObjectStore, manifest: Manifest, table: str, name: str) -> list[dict[str, Any]]:
    found = _table(store, manifest, table)
    rows: list[dict[str, Any]] = found.filter(pc.equal(found["topic"], name)).to_pylist()
    return rows


def _table(store: ObjectStore, manifest: Manifest, table: str) -> pa.Table:
    """A table of a snapshot, its bytes checked when it is read first."""

    def read() -> tuple[pa.Table, int]:
        found = read_snapshot_table(store, manifest, table)
        return found, found.nbytes

    return CACHE.get((store.uri, manifest.key, table), read)
