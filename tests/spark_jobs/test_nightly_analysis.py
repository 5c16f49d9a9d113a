"""The whole date: staged from a store, analysed, published; and what happens to clusters that cannot be."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.analysis import published as published_analyses
from kafka_maintenance.operations.analysis import run as analyse
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.snapshots.choice import choose
from spark_jobs import nightly_analysis, results, schemas
from spark_jobs.io.errors import DatasetError
from spark_jobs.on_core import drill
from spark_jobs.transforms import facts, history, imbalance, summary
from tests.spark_jobs.fleet import ALPHA, BETA, DELTA, EPSILON, GAMMA, ROWS, by_hand, run_by_hand
from tests.spark_jobs.worlds import DAY, World, publish, write

SETTINGS = {
    "default": {"kafka_version": "3.9"},
    "clusters": {"delta": {"kafka_version": "7.7"}, "epsilon": {"delete_topic_enable": "false"}},
}


def job(spark, staged, *more):
    args = nightly_analysis.parse([*staged.arguments, *more])
    return nightly_analysis.run(spark, args, say=list)


@pytest.fixture(scope="module")
def day(spark, tmp_path_factory):
    """One run over five clusters: one with a newer snapshot of the date that cannot be read, one with bad rows and an earlier
    date that cannot be read, one damaged in the store, two with settings nobody can use, one of them for two dates; of a sixth there is none."""
    folder = tmp_path_factory.mktemp("day")
    store = open_store(str(folder / "store"))
    older = World(cluster="alpha", brokers=dict.fromkeys(range(5), "a"), partitions=ROWS)
    for world in (older.on(2), older.on(1), ALPHA, BETA, GAMMA, DELTA.on(1), DELTA, EPSILON):
        publish(world, store)
    store.put(publish(BETA.on(1), store).key, b"{")
    store.put(f"v1/cluster=alpha/date={DAY}/snap=ffffffffffffffff-later/manifest.json", b"{")
    chosen = choose(store, DAY).snapshots
    store.put(chosen[-1].object("partitions").key, b"PAR1 no longer")
    staged = analyse.stage(
        store,
        chosen,
        folder / "work",
        run_id="scheduled 2026/11",
        day=DAY,
        settings=SETTINGS,
        missing={"zeta": "cluster 'zeta' has no snapshot"},
    )
    status = job(spark, staged, "--fail-if-incomplete")
    published = published_analyses.publish(
        staged.output, store, day=DAY, run_id="scheduled 2026/11", now=datetime(2026, 11, 20, 4, tzinfo=UTC)
    )
    return store, staged, status, published


def table_of(day, name):
    return pq.read_table(Path(day[1].output) / name, partitioning=None).to_pylist()


def test_every_output_has_its_columns(day):
    for name, schema in schemas.OUTPUTS.items():
        assert pq.read_schema(next((Path(day[1].output) / name).glob("*.parquet"))).names == schema.names


def test_clusters_that_cannot_be_analysed_are_named_and_do_not_stop_the_others(day):
    _, _, status, published = day
    stages = {row["cluster"]: row["stage"] for row in table_of(day, "not_analysed")}
    assert stages == {
        "alpha": "history", "beta": "history", "gamma": "fetch", "delta": "settings", "epsilon": "settings", "zeta": "fetch",
    }  # fmt: skip
    assert status == nightly_analysis.INCOMPLETE
    assert set(published.summary["clusters"]) == {"alpha", "beta"}
    assert published.summary["not_analysed_count"] == 6


def test_of_earlier_snapshots_only_what_the_history_reads_is_fetched(day):
    folders = (Path(day[1].folder) / "input" / "cluster=alpha").glob("date=*/snap=*")
    found = {folder.parent.name: {path.stem for path in folder.glob("*.parquet")} for folder in folders}
    assert found == {
        "date=2026-11-18": set(schemas.OF_HISTORY),
        "date=2026-11-19": set(schemas.INPUTS),
        "date=2026-11-20": set(schemas.INPUTS),
    }
    assert analyse.OF_HISTORY == schemas.OF_HISTORY


def test_bad_rows_are_counted_and_kept(day):
    found = {(row["cluster"], row["dataset"], row["path"]) for row in table_of(day, "refused_rows")}
    assert found == {("beta", "partitions", "/brokers/topics/t/partitions/1"), ("alpha", "raw", "/brokers/topics/odd")}
    assert day[3].summary["refused_row_count"] == 2
    (queued,) = [row for row in table_of(day, "deletion_eligibility") if row["cluster"] == "beta"]
    assert [reason["kind"] for reason in queued["reasons"]] == ["unreadable, cannot be judged"]
    predicted = [row["effect"] for row in table_of(day, "deletion_prediction") if row["cluster"] == "beta"]
    assert predicted == [reason["text"] for reason in queued["reasons"]]


def test_the_summary_says_what_a_task_needs(day):
    alpha = day[3].summary["clusters"]["alpha"]
    assert alpha["deletions_waiting"] == ["trash"]
    assert alpha["electable_count"] == 1
    assert alpha["findings"]["stale_isr_change"] == 1
    assert alpha["before"]["broker_count"] == 5
    assert alpha["plan"]["status"] == "planned"
    assert alpha["plan"]["moves"] == alpha["plan"]["moves_lower_bound"] > 0
    assert len(json.dumps(day[3].summary)) < 10_000


def test_the_plan_is_there_for_kafkas_own_tool(day):
    plan = json.loads((Path(day[1].output) / "plans" / "alpha.plan.json").read_text())
    back = json.loads((Path(day[1].output) / "plans" / "alpha.rollback.json").read_text())
    assert {entry["topic"] for entry in plan["partitions"]} == {"orders"}  # the queued topic stays where it is
    assert len(plan["partitions"]) == len(back["partitions"])


def test_the_report_reads_from_top_to_bottom(day):
    text = (Path(day[1].output) / "report.md").read_text()
    for words in (
        "# Kafka maintenance report, 2026-11-20",
        "2 clusters analysed, 6 problems, 2 rows refused.",
        "trash-0 has replicas on brokers [9]",
        "start the brokers that the reasons name",
        "(proven minimal)",
        "Judged as Kafka 3.9: named in the settings.",
        "Receive: broker 5 from 0 to",
        "Compared with the day before (since 2026-11-19 02:30)",
        "**Changed besides topics and partitions**\n\n* not compared with ",  # these snapshots have no raw layer
        "The dates so far",
        "2026-11-18",
    ):
        assert words in text
    page = (Path(day[1].output) / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 3
    assert "<script" not in page


def test_a_published_analysis_is_whole_and_stays(day):
    store, staged, _, published = day
    names = {key.rpartition("/")[2] for key in store.list(published_analyses.PREFIX)}
    assert {"report.md", "report.html", "summary.json", "imbalance.parquet", "manifest.json"} <= names
    assert [found["cluster"] for found in published.snapshots if found["digest"]] == ["alpha", "beta"]
    again = published_analyses.publish(
        staged.output, store, day=DAY, run_id="scheduled 2026/11", now=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert again == published
    later = published_analyses.publish(
        staged.output, store, day=DAY, run_id="again", now=datetime(2026, 11, 20, 5, tzinfo=UTC)
    )
    assert published_analyses.latest_report(store, DAY) == later
    assert [found.run_id for found in published_analyses.list_analyses(store)] == ["scheduled 2026/11", "again"]


def test_an_incomplete_analysis_fails_after_it_is_published(day):
    store, staged, _, _ = day
    with pytest.raises(published_analyses.AnalysisIncompleteError, match="gamma"):
        published_analyses.publish(staged.output, store, day=DAY, run_id="strict", fail_if_incomplete=True)
    assert "strict" in [found.run_id for found in published_analyses.list_analyses(store)]


def test_the_same_snapshots_give_the_same_results_whether_the_driver_holds_a_table_or_not(
    day, spark, tmp_path, monkeypatch
):
    _, staged, _, _ = day
    monkeypatch.setattr(results, "HELD_ROWS_MAX", 0)
    arguments = list(staged.arguments)
    arguments[arguments.index("--output") + 1] = str(tmp_path / "again")
    names = ("imbalance", "findings", "proposals", "failure_drill")
    nightly_analysis.run(spark, nightly_analysis.parse([*arguments, "--only", *names]), say=list)
    for name in names:
        again = pq.read_table(tmp_path / "again" / name, partitioning=None)
        first = pq.read_table(Path(staged.output) / name, partitioning=None)
        timed = "solver_seconds"
        assert again.drop_columns([timed] if timed in again.column_names else []).equals(
            first.drop_columns([timed] if timed in first.column_names else [])
        ), name


def test_a_part_of_the_results_is_all_that_is_described(day, spark, tmp_path, monkeypatch):
    def unwanted(*_, **__):
        raise AssertionError("nobody asked for it")

    unasked = (
        (results, "propose"),
        (drill, "failure_drill"),
        (facts, "core_facts"),
        (summary, "broker_load"),
        (history, "leader_churn"),
        (imbalance, "imbalance"),
    )
    for place, name in unasked:
        monkeypatch.setattr(place, name, unwanted)
    arguments = list(day[1].arguments)
    arguments[arguments.index("--output") + 1] = str(tmp_path / "part")
    nightly_analysis.run(spark, nightly_analysis.parse([*arguments, "--only", "growth", "not_analysed"]), say=list)
    assert {path.parent.name for path in (tmp_path / "part").glob("*/*.parquet")} == {"growth", "not_analysed"}


def test_a_date_without_a_snapshot_names_the_dates_there_are(day):
    with pytest.raises(BadInputError, match="dates with one are 2026-11-18, 2026-11-19, 2026-11-20"):
        choose(day[0], "2026-01-01")


def test_no_report_and_a_changed_manifest_are_told(day, tmp_path):
    empty = open_store(str(tmp_path / "empty"))
    with pytest.raises(ObjectMissingError, match="run one"):
        published_analyses.latest_report(empty)
    key = f"{published_analyses.PREFIX}date=2026-11-20/run=x/manifest.json"
    document = json.loads(day[0].get(published_analyses.key_of(day[0], day[3].uri)))
    empty.put(key, json.dumps({**document, "run_id": "other"}).encode())
    with pytest.raises(ObjectDamagedError, match="was changed"):
        published_analyses.latest_report(empty)


def test_publishing_needs_a_finished_analysis(tmp_path):
    with pytest.raises(BadInputError, match="run the job again"):
        published_analyses.publish(tmp_path, open_store(str(tmp_path / "store")), day=DAY, run_id="x")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ("--date", "2026-01-01"),
            "found 1 of the dates ['2026-11-20'] and 1 of other dates that cannot be read; name one of them",
            id="no snapshot of that date",
        ),
        pytest.param(("--date", "0001-01-01"), "date 0001-01-01 not analysed", id="the first date that there is"),
        pytest.param(("--settings", "/nowhere"), "name a file that exists", id="no settings file"),
        pytest.param(("--goals", "{goals}"), "goals.json not read: ", id="goals that there are not"),
    ],
)
def test_bad_input_is_status_2(submitted_here, capsys, tmp_path, arguments, words):
    publish(GAMMA, store := open_store(str(tmp_path / "store")))
    store.put(publish(GAMMA.on(1), store).key, b"{")
    (goals := tmp_path / "goals.json").write_text('{"include_topics": "orders"}')
    arguments = [argument.format(goals=goals) for argument in arguments]
    given = by_hand(tmp_path / "store", tmp_path / "out", *arguments)
    assert nightly_analysis.main(given) == nightly_analysis.BAD_INPUT
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "number", "least"),
    [("--files", "0", 1), ("--history-days", "0", 1), ("--history-nights", "-5", 1), ("--drill-pairs-max", "many", 0)],
)
def test_a_number_that_no_job_can_use_is_refused_before_it_starts(capsys, name, number, least):
    with pytest.raises(SystemExit) as refused:
        nightly_analysis.main(by_hand("in", "out", f"{name}={number}"))
    assert refused.value.code == nightly_analysis.BAD_INPUT
    assert f"expected a whole number of at least {least}, found '{number}'" in capsys.readouterr().err


def test_a_folder_that_is_used_again_shows_this_date_only(spark, tmp_path):
    write(replace(ALPHA, queued={}), tmp_path / "store")
    output, only = tmp_path / "out", ("--only", "proposals", "failure_drill")
    run_by_hand(spark, tmp_path / "store", output, *only)
    assert (output / "plans" / "alpha.plan.json").exists()
    (output / "plans" / "notes.txt").write_text("mine")
    run_by_hand(spark, tmp_path / "store", output, "--no-plans", "--no-drill", *only)
    assert [path.name for path in (output / "plans").iterdir()] == ["notes.txt"]
    text = (output / "report.md").read_text()
    assert "Proposed reassignment" not in text
    assert "Failure drill" not in text
    assert json.loads((output / "summary.json").read_text())["clusters"]["alpha"]["plan"] is None


@pytest.mark.parametrize("lost", ["findings", "findings/part-*.parquet", "imbalance/part-*.parquet"])
def test_results_that_somebody_removes_while_the_job_runs_are_delivered_as_no_healthy_ones(
    spark, tmp_path, monkeypatch, lost
):
    """A later try removes what an earlier one left, which may still run where its task was only given up for lost."""
    write(ALPHA, tmp_path / "in")
    read = nightly_analysis.content.read

    def lose_and_read(place, *arguments, **options):
        for path in Path(place.path).glob(lost):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return read(place, *arguments, **options)

    monkeypatch.setattr(nightly_analysis.content, "read", lose_and_read)
    with pytest.raises(
        DatasetError, match=f"results not delivered: .*{lost.partition('/')[0]}.* removed or replaced,.* run it again"
    ):
        run_by_hand(spark, tmp_path / "in", tmp_path / "out", "--only", "imbalance", "findings")
    assert not (tmp_path / "out" / "delivered.json").exists()
