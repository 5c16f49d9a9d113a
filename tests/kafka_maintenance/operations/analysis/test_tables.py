"""Tables of results as pages, metrics and alarms read them: whole, or refused; what an analysis was not asked for has no rows."""

import html
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot import parquet
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.analysis.alarms import alarms_of_date
from kafka_maintenance.operations.analysis.overviews import require_overview
from kafka_maintenance.operations.analysis.published import read_analysis
from kafka_maintenance.operations.analysis.retention import remove_analysis
from kafka_maintenance.operations.analysis.tables import CACHE, table_of
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.cluster import cluster_page
from tests.kafka_maintenance.web.fleet import Sick, publish_date

ILL = Sick("blue", critical=2, warnings=4)


@pytest.fixture
def store(tmp_path):
    """Two dates of a cluster that is ill."""
    CACHE.clear()
    store = open_store(str(tmp_path))
    for day in (1, 0):
        publish_date(store, [ILL], day)
    return store


@pytest.fixture
def newest(store):
    return require_overview(store)


def key(newest, name="findings.parquet"):
    return newest.manifest.replace("manifest.json", name)


def in_parts(store, newest, count=2):
    """Stores the findings as a job of several tasks does: the parts, and their names in the manifest."""
    whole = pq.read_table(io.BytesIO(store.get(key(newest))))
    store.delete(key(newest))
    document = json.loads(store.get(newest.manifest))
    entries = [each for each in document["objects"] if each["key"] != key(newest)]
    for part in range(count):
        sink = io.BytesIO()
        pq.write_table(whole.slice(part * 3, 3), sink)
        entries.append({"key": key(newest, f"findings/part-{part:05}.parquet")})
        store.put(entries[-1]["key"], sink.getvalue())
    store.put(newest.manifest, json.dumps(document | {"objects": entries}).encode())


def test_the_parts_that_the_manifest_names_are_one_table(store, newest):
    assert table_of(store, newest.manifest, "kraft_readiness").num_rows == 0
    in_parts(store, newest)
    assert table_of(store, newest.manifest, "findings", cluster="blue", columns=["kind"]).num_rows == 6
    assert table_of(store, newest.manifest, "findings", cluster="red").num_rows == 0
    assert table_of(store, newest.manifest, "not_asked_for").num_rows == 0


DAMAGES = pytest.mark.parametrize(
    ("damage", "expected", "message"),
    [
        pytest.param(
            lambda store, newest: store.delete(key(newest)),
            ObjectDamagedError,
            "as the manifest beside it names it, found no such object",
            id="gone",
        ),
        pytest.param(
            lambda store, newest: in_parts(store, newest) or store.delete(key(newest, "findings/part-00001.parquet")),
            ObjectDamagedError,
            "findings/part-00001.parquet' not read: expected it",
            id="a part is gone",
        ),
        pytest.param(
            lambda store, newest: remove_analysis(store, newest.manifest),
            ObjectMissingError,
            "manifest.json",
            id="its analysis is gone",
        ),
        pytest.param(
            lambda store, newest: store.delete(key(newest)) or store.put(newest.manifest, b"[" * 100_000),
            ObjectDamagedError,
            "beside it is damaged",
            id="neither can be read",
        ),
        pytest.param(
            lambda store, newest: store.put(
                key(newest), store.get(key(newest))[:40] + bytes(40) + store.get(key(newest))[80:]
            ),
            ObjectDamagedError,
            "findings.parquet' not read",
            id="bytes of a column are others",
        ),
    ],
)


@DAMAGES
def test_a_table_that_is_not_whole_is_not_taken_for_one_without_rows(store, newest, damage, expected, message):
    damage(store, newest)
    with pytest.raises(expected, match=message):
        alarms_of_date(store, require_overview(store), mildest="info")
    page = html.unescape(page_html(cluster_page(store, "blue"), nonce="n"))
    assert re.search(message, page), "in place of the findings"


def test_a_table_that_decompresses_to_more_than_any_of_ours_is_not_read(store, newest, monkeypatch):
    sink = io.BytesIO()
    pq.write_table(pa.table({"cluster": ["blue"] * 1000, "detail": ["0" * 1000] * 1000}), sink)
    store.put(key(newest), sink.getvalue())
    monkeypatch.setattr(parquet, "UNCOMPRESSED_BYTES_MAX", 100_000)
    with pytest.raises(ObjectDamagedError, match="expected at most 100000 bytes"):
        table_of(store, newest.manifest, "findings", cluster="blue")


def test_findings_are_neither_new_nor_standing_where_retention_removed_the_analysis_before(store, newest):
    remove_analysis(
        store,
        require_overview(
            store, str(min(each.partition("date=")[2][:10] for each in store.list("v1/analysis/")))
        ).manifest,
    )
    table = cluster_page(store, "blue").sections[0].blocks[0]
    assert {row[2].text for row in table.rows} == {"-"}
    assert len(alarms_of_date(store, newest, mildest="warning")) == 6


def test_a_manifest_that_is_nested_without_end_is_damaged(store, newest):
    store.put(newest.manifest, b"[" * 100_000)
    with pytest.raises(ObjectDamagedError, match="its manifest is damaged"):
        read_analysis(store, newest.manifest)
