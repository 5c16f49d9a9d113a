"""Small clusters written down in a few lines, as rows, as frames and as snapshot folders."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from controller_core.adapters.snapshot.manifest import (
    StoredObject,
    changed_manifest,
    manifest_bytes,
    new_manifest,
    parse_manifest,
    snapshot_prefix,
)
from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_schema

DAY = date(2026, 11, 20)


@dataclass(frozen=True)
class World:
    """One snapshot. `partitions`: (topic, partition, replicas, leader, isr), with adding, removing as items 5 and 6.

    A leader of None is a partition without a state; `brokers`: id → rack; `queued`: topic → age of the request in
    seconds; other rows are given by the columns that matter.
    """

    partitions: tuple = ()
    brokers: dict = field(default_factory=dict)
    queued: dict = field(default_factory=dict)
    requests: tuple = ()
    notifications: tuple = ()
    configs: tuple = ()
    bad_rows: tuple = ()
    cluster: str = "alpha"
    day: date = DAY
    time_of_day: time = time(2, 30)
    controller: dict = field(default_factory=dict)
    zxid: int = 4096

    @property
    def snapshot_id(self):
        return f"{self.zxid:016x}-{self.day:%Y%m%d}"

    @property
    def taken_at(self):
        return datetime.combine(self.day, self.time_of_day, UTC)

    def on(self, days_ago):
        return replace(self, day=self.day - timedelta(days=days_ago), zxid=self.zxid - days_ago)

    def rows(self, table):
        made = getattr(self, f"_{table}")()
        names = schemas.INPUTS[table].names
        return [tuple({**self._key(), **dict.fromkeys(names[3:]), **row}[name] for name in names) for row in made]

    def _key(self):
        return {"cluster": self.cluster, "snapshot_id": self.snapshot_id, "taken_at": self.taken_at}

    def _partitions(self):
        for topic, number, replicas, leader, isr, *moving in self.partitions:
            adding, removing = moving or ((), ())
            state = {
                "leader": leader,
                "leader_epoch": 3,
                "isr": list(isr),
                "controller_epoch": 7,
                "recovery": 0,
                "state_version": 5,
                "state_mtime": self.taken_at,
            }
            yield {
                "topic": topic,
                "partition": number,
                "replicas": list(replicas),
                "adding": list(adding),
                "removing": list(removing),
                "preferred_leader": replicas[0] if replicas else None,
                "czxid": 100,
                **({} if leader is None else state),
            }

    def _topics(self):
        for topic in sorted({row[0] for row in self.partitions}):
            yield {
                "topic": topic,
                "topic_id": f"id-of-{topic}",
                "partition_count": sum(row[0] == topic for row in self.partitions),
                "json_version": 3,
                "znode_version": 0,
                "czxid": 100,
                "mzxid": 100,
                "ctime": self.taken_at - timedelta(days=30),
                "mtime": self.taken_at - timedelta(days=30),
                "deletion_requested": topic in self.queued,
            }

    def _brokers(self):
        for number, rack in sorted(self.brokers.items()):
            yield {
                "broker_id": number,
                "host": f"host-{number}",
                "port": 9092,
                "rack": rack,
                "endpoints": [f"PLAINTEXT://host-{number}:9092"],
                "json_version": 5,
                "broker_epoch": 1000 + number,
                "registered_at": self.taken_at - timedelta(days=1),
            }

    def _requests(self):
        for topic, age_s in self.queued.items():
            yield {"kind": "delete_topics", "topic": topic, "ctime": self.taken_at - timedelta(seconds=age_s)}
        for kind, topic, number, replicas, age_s in self.requests:
            yield {
                "kind": kind,
                "topic": topic,
                "partition": number,
                "replicas": None if replicas is None else list(replicas),
                "ctime": self.taken_at - timedelta(seconds=age_s),
            }

    def _notifications(self):
        for kind, name, topic, number, broker, age_s in self.notifications:
            yield {
                "kind": kind,
                "name": name,
                "topic": topic,
                "partition": number,
                "broker": broker,
                "ctime": self.taken_at - timedelta(seconds=age_s),
            }

    def _configs(self):
        for entity_type, entity_name, key, value in self.configs:
            yield {"entity_type": entity_type, "entity_name": entity_name, "key": key, "value": value}

    def _acls(self):
        return ()

    def _cluster(self):
        yield {
            "kafka_cluster_id": f"id-of-{self.cluster}",
            "controller_id": min(self.brokers, default=None),
            "controller_epoch": 7,
            "controller_epoch_version": 7,
            "controller_json_version": 2,
            "kraft_controller_epoch": -1,
            "zxid": self.zxid,
            "consistent": True,
            **self.controller,
        }

    def _bad_rows(self):
        for path, reason in self.bad_rows:
            yield {"path": path, "reason": reason}


SICK = World(
    brokers={1: "a", 2: "b", 3: "b"},
    partitions=(
        ("fine", 0, (1, 2), 1, (1, 2)),
        ("lost", 0, (9, 8), -1, (9,)),
        ("slow", 0, (1, 2), 1, (1,)),
        ("same", 0, (2, 3), 2, (2, 3)),
        ("lone", 0, (1,), 1, (1,)),
        ("away", 0, (1, 2), 2, (2, 1)),
        ("none", 0, (1, 2), None, ()),
        ("odd", 0, (1, 2), 3, (1, 2, 3)),
        ("moves", 0, (1, 2, 3), 1, (1, 2), (3,), ()),
        ("void", 0, (1, 2), 1, (1, 2), (), (1, 2)),
        ("gone", 0, (1, 2), -1, (1,)),
    ),
    queued={"gone": 60},
    configs=(("topics", "slow", "min.insync.replicas", "2"), ("topics", "lone", "min.insync.replicas", "2")),
)
"""A partition of each sickness, beside one that has none."""


def frame(spark, table, *worlds):
    schema = schemas.INPUTS[table]
    rows = [row for world in worlds for row in world.rows(table)]
    columns = [[row[index] for row in rows] for index in range(len(schema.names))]
    return spark.createDataFrame(pa.table(columns, schema=arrow_schema(schema)), schema)


def frames(spark, *worlds):
    return {table: frame(spark, table, *worlds) for table in schemas.INPUTS}


def rows_of(result, *names):
    return sorted(tuple(row[name] for name in names) for row in result.collect())


def write(world, root):
    """Writes a snapshot folder as the snapshot operation does; returns it."""
    place = Path(root) / f"cluster={world.cluster}" / f"date={world.day}" / f"snap={world.snapshot_id}"
    place.mkdir(parents=True)
    manifest, contents = published(world)
    for stored in manifest.objects:
        (place / Path(stored.key).name).write_bytes(contents[stored.key])
    (place / "manifest.json").write_bytes(manifest_bytes(manifest))
    return place


def publish(world, store):
    """Puts a snapshot into a store as the snapshot operation does; returns its manifest."""
    manifest, contents = published(world)
    for key, content in contents.items():
        store.put(key, content)
    store.put_new(manifest.key, manifest_bytes(manifest))
    return replace(manifest, uri=store.uri_of(manifest.key))


def put_in(folder, table, data, rows=None):
    """Puts other bytes in the place of a snapshot's table, and names them in its manifest; `rows` where their number changes."""
    (folder / f"{table}.parquet").write_bytes(data)
    manifest = parse_manifest((folder / "manifest.json").read_bytes(), f"{folder}/manifest.json", "manifest.json")
    said = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **({} if rows is None else {"rows": rows})}
    objects = tuple(replace(each, **said) if each.table == table else each for each in manifest.objects)
    (folder / "manifest.json").write_bytes(manifest_bytes(changed_manifest(manifest, objects=objects)))


def published(world):
    """The manifest of a snapshot, and the bytes of its tables by key."""
    prefix = snapshot_prefix(world.cluster, world.taken_at, world.snapshot_id)
    contents, objects = {}, []
    for table, schema in schemas.INPUTS.items():
        rows = world.rows(table)
        columns = [[row[index] for row in rows] for index in range(len(schema.names))]
        data = pa.BufferOutputStream()
        pq.write_table(pa.table(columns, schema=arrow_schema(schema)), data)
        key, content = f"{prefix}/{table}.parquet", data.getvalue().to_pybytes()
        contents[key] = content
        objects.append(StoredObject(key, len(content), hashlib.sha256(content).hexdigest(), len(rows)))
    manifest = new_manifest(
        uri=f"{prefix}/manifest.json",
        prefix=prefix,
        cluster=world.cluster,
        kafka_cluster_id=f"id-of-{world.cluster}",
        date=str(world.day),
        snapshot_id=world.snapshot_id,
        run_id=f"{world.day:%Y%m%d}",
        taken_at=world.taken_at,
        zxid=world.zxid,
        consistent=True,
        reason=None,
        unresolved=0,
        rounds=1,
        method="cut",
        zookeeper_version="3.9",
        chroot="",
        secured=False,
        objects=tuple(objects),
        counts={stored.table: stored.rows for stored in objects},
        redacted=(),
        key_id=None,
        unreadable=(),
        code_version="test",
    )
    return manifest, contents
