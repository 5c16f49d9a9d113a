"""The report of a recorded cluster begins with the broker that is gone, and counts it once."""

import json
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafka_maintenance.demo.sample_history import DAYS, RECORDED
from spark_jobs import nightly_analysis
from tests.spark_jobs.worlds import put_in


def without_broker(folder, broker):
    """Takes a broker's registration out of a snapshot, as ZooKeeper does when its session ends."""
    path = folder / "brokers.parquet"
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.filter(pc.not_equal(table["broker_id"], broker)), path)
    put_in(folder, "brokers", path.read_bytes(), rows=table.num_rows - 1)


@pytest.fixture(scope="module")
def output(spark, tmp_path_factory):
    """The results of a recorded cluster whose broker 3 was killed."""
    folder = tmp_path_factory.mktemp("killed")
    for day in DAYS[-2:]:
        (recorded,) = Path(RECORDED).glob(f"v1/cluster=*/date={day}/snap=*")
        shutil.copytree(recorded, folder / recorded.relative_to(RECORDED))
    (last,) = folder.glob(f"v1/cluster=*/date={DAYS[-1]}/snap=*")
    without_broker(last, 3)
    arguments = ["--input", str(folder), "--output", str(folder / "out"), "--run", "r", "--date", str(DAYS[-1])]
    only = ("findings", "cluster_summary", "broker_load", "failure_drill", "imbalance")
    assert nightly_analysis.run(spark, nightly_analysis.parse([*arguments, "--only", *only]), say=list) == 0
    return folder / "out"


def test_the_report_starts_with_the_broker_that_is_down(output):
    lines = [line for line in (output / "report.md").read_text().splitlines() if line]
    assert lines[3].startswith(
        f"Needs a person today: broker 3 is not registered, last registered in the snapshot of {DAYS[-2]}"
    )
    assert lines[4].startswith("Can be repaired by a yes: ")
    assert lines[5].startswith("Changed since the day before: brokers -1")


def test_one_cause_counts_once(output):
    (cluster,) = json.loads((output / "summary.json").read_text())["clusters"].values()
    found = pq.read_table(output / "findings", partitioning=None).to_pylist()
    follow = [row for row in found if row["cause"] == "broker_down [3]"]
    assert cluster["critical_count"] == 1
    assert {"offline", "non_preferred_leader"} & {row["kind"] for row in follow}
    text = (output / "report.md").read_text()
    assert text.index("| critical | broker_down | 1 |") < text.index("└ offline, follows from broker_down [3]")


def test_every_cluster_has_a_page_and_every_broker_an_answer(output):
    (page,) = (output / "clusters").glob("*.html")
    assert page.read_text().count("data:image/png;base64,") >= 1
    text = page.with_suffix(".md").read_text()
    assert "| broker | safe to restart now | because |" in text
    assert "are safe to restart." in text
    assert f"clusters/{page.name}" in {
        entry["name"] for entry in json.loads((output / "delivered.json").read_text())["files"]
    }
