"""What the report says of results, and what it leaves out aloud."""

from dataclasses import replace
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs import schemas
from spark_jobs.io import folders
from spark_jobs.io import snapshots as stored
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.planner.goals import Goals
from spark_jobs.report import build as report
from spark_jobs.report import content, numbers
from tests.spark_jobs.worlds import DAY, World, published


def test_a_cluster_that_is_missing_is_named_however_many_dates_others_lack():
    problem = {"snapshot_id": "s", "stage": stored.HISTORY, "reason": "damaged"}
    gaps = [{**problem, "cluster": f"c{number // 2:02}"} for number in range(50)]
    missed = [{**problem, "cluster": f"z{number:02}", "stage": "fetch"} for number in range(30)]
    page = content.Page("r", DAY, {"not_analysed": [*gaps, *missed]}, ())
    found = numbers.summary(page)
    named = [row["cluster"] for row in found["not_analysed"]]
    assert named == [*(f"z{number:02}" for number in range(30)), *(f"c{number:02}" for number in range(20))]
    assert found["not_analysed_count"] == 80
    text = report.markdown(page)
    assert "| z29 | fetch | damaged |" in text
    assert "| c00 | 2 | damaged |" in text


def written(folder, name, **columns):
    """One result of as many rows as the longest column; a single value is that of all rows."""
    count = max(len(column) for column in columns.values() if isinstance(column, list))
    schema = arrow_schema(schemas.OUTPUTS[name])
    values = {key: column if isinstance(column, list) else [column] * count for key, column in columns.items()}
    arrays = [pa.array(values.get(field.name, [None] * count), field.type) for field in schema]
    (folder / name).mkdir(parents=True)
    pq.write_table(pa.table(arrays, schema=schema), folder / name / "part-0.parquet")


def named(cluster):
    return stored.Snapshot("", replace(published(World(cluster=cluster))[0], snapshot_id="s"))


def page_of(spark, folder, made, *clusters):
    current = [named(cluster) for cluster in clusters]
    return content.read(folders.folder(spark, str(folder)), made, run="r", day=DAY, snapshots=current)


def test_a_big_cluster_hides_no_other(spark, tmp_path):
    many = content.ROWS_MAX + 5
    written(
        tmp_path, "findings", cluster=["alpha"] * many + ["zeta"] * 3, snapshot_id="s", topic="t",
        kind=["non_preferred_leader"] * many + ["offline"] * 3, severity=["info"] * many + ["critical"] * 3,
        partition=[*range(many), 4, 5, 6], detail="led by another",
    )  # fmt: skip
    page = page_of(spark, tmp_path, ["findings"], "alpha", "zeta")
    assert page.order == ["zeta", "alpha"]
    clusters = numbers.summary(page)["clusters"]
    assert (clusters["zeta"]["critical_count"], clusters["alpha"]["findings"]) == (3, {"non_preferred_leader": many})
    text = report.markdown(page)
    assert "| critical | offline | 3 | t-4: led by another |" in text
    assert "Nothing is wrong" not in text


def test_rows_that_a_report_does_not_read_are_told(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "ROWS_MAX", 2)
    written(
        tmp_path, "deletion_prediction", cluster=["alpha"] * 3, snapshot_id="s", topic="t", step=[1, 2, 3], effect="e"
    )
    page = page_of(spark, tmp_path, ["deletion_prediction"], "alpha")
    assert "1 row of deletion_prediction in its table only, and in no count." in report.markdown(page)


def test_a_cluster_is_called_healthy_only_where_somebody_looked(spark, tmp_path):
    assert "Nothing is wrong" not in report.markdown(page_of(spark, tmp_path, ["growth"], "alpha"))
    assert "Nothing is wrong" in report.markdown(page_of(spark, tmp_path, ["findings", "refused_rows"], "alpha"))
    written(
        tmp_path, "refused_rows", cluster=["alpha"] * 40, snapshot_id="s", dataset="partitions", reason="no replicas"
    )
    page = page_of(spark, tmp_path, ["findings", "refused_rows"], "alpha")
    text = report.markdown(page)
    assert "Nothing was found, but 40 rows of it could not be judged" in text
    assert "| alpha | partitions | no replicas | 40 |" in text
    found = numbers.summary(page)["clusters"]["alpha"]
    assert (found["refused_row_count"], found["critical_count"], found["electable_count"]) == (40, 0, None)


def test_the_page_says_what_it_leaves_out(spark, tmp_path):
    written(
        tmp_path, "deletion_prediction", cluster="alpha", snapshot_id="s", topic=["a", "a", "b"], step=[1, 2, 1], effect="e"
    )  # fmt: skip
    written(tmp_path, "deletion_eligibility", cluster="alpha", snapshot_id="s", topic=["a", "b", "c"], eligible=True,
            partition_count=1, reasons=[[]] * 3, remedy="")  # fmt: skip
    days = [date(2026, 11, 1) + timedelta(days=number) for number in range(18)]
    written(tmp_path, "growth", cluster="alpha", date=days, topic_count=1)
    written(tmp_path, "unstable_partitions", cluster="alpha", topic="t", partition=list(range(20)), days=3,
            leader_changes=list(range(20)), leader_epoch_steps=40, isr_changes=0, nights_under_replicated=2)  # fmt: skip
    made = ["deletion_prediction", "deletion_eligibility", "growth", "unstable_partitions"]
    text = report.markdown(page_of(spark, tmp_path, made, "alpha"))
    assert "Of 3 topics the first 2 by name were followed." in text
    assert "3 earlier dates: see the table's file." in text
    assert "| t-19 | 19 | 0 | 40 | 2 |" in text
    assert "| t-4 |" not in text
    assert "5 more rows are in the table's file." in text


def test_a_report_names_goals_and_reads_no_plan(spark, tmp_path, monkeypatch):
    written(tmp_path, "proposals", cluster=["alpha"], snapshot_id="s", status="planned", moves=2, moves_lower_bound=2,
            leader_changes=0, explanation="Why: it is so.", plan="{}", rollback="{}", certificate="{}")  # fmt: skip
    place, read = folders.folder(spark, str(tmp_path)), []
    monkeypatch.setattr(folders.Folder, "each", _told(folders.Folder.each, read))
    current = [named("alpha")]
    page = content.read(
        place, ["proposals"], run="r", day=DAY, snapshots=current, goals=Goals(moves_max=7, drain=frozenset({3}))
    )
    assert not {"plan", "rollback", "certificate"} & {name for columns in read for name in columns}
    text = report.markdown(page)
    assert 'planned for other goals than the default: {"drain": [3], "moves_max": 7}.' in text
    assert "* Why: it is so." in text
    assert "other goals" not in report.markdown(page_of(spark, tmp_path, ["proposals"], "alpha"))


def _told(each, read):
    def spy(place, table, columns=None, **more):
        read.append(columns)
        return each(place, table, columns, **more)

    return spy
