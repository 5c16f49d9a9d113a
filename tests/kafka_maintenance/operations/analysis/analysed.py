"""Published analyses with findings."""

import io
import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

TODAY, YESTERDAY = date(2026, 11, 22), date(2026, 11, 21)
COLUMNS = ("kind", "severity", "topic", "partition", "brokers", "detail", "cause")


def finding(cluster, kind, severity, topic=None, partition=None, brokers=None, cause=None):
    values = (kind, severity, topic, partition, brokers, f"{kind} it is", cause)
    return {"cluster": cluster} | dict(zip(COLUMNS, values, strict=True))


def table_of(*findings):
    """Their table, as the analysis leaves it."""
    names = ("cluster", *COLUMNS)
    types = {"partition": pa.int32(), "brokers": pa.list_(pa.int32())}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(findings), schema=schema), buffer)
    return buffer.getvalue()


def analysed(store, day, *findings, run="r", clusters=("blue", "red"), unjudged=()):
    """Publishes what alarms read of an analysis, which did not look for findings of the clusters in `unjudged`; the key of its manifest."""
    manifest = f"v1/analysis/date={day}/run={run}/manifest.json"
    store.put(f"v1/analysis/date={day}/run={run}/findings.parquet", table_of(*findings))
    overview = {"format_version": 1, "date": str(day), "run_id": run, "created_at": f"{day}T03:00:00+00:00"}
    document = overview | {
        "manifest": manifest,
        "clusters": {name: {"critical_count": None if name in unjudged else 0} for name in clusters},
    }
    store.put(f"v1/overviews/date={day}/run={run}.json", json.dumps(document).encode())
    return manifest
