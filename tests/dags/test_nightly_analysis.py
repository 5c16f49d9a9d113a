"""`nightly_analysis` on stored snapshots: what is analysed, what is skipped with a reason, what is told."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import airflow_home
from tests.dags.archive import OLD_DAYS, REPORT, take_old, write_over
from tests.dags.runs import all_states_of, clear_task, go_on, xcom_of
from tests.kafka_maintenance.operations.analysis.analysed import finding


@pytest.mark.services
class TestNightlyAnalysis:
    def test_a_day_without_any_snapshot_is_skipped_with_a_note_on_its_page(self, bag, clients, store, zookeeper):
        for day in OLD_DAYS:
            take_old(zookeeper, store, day)
        past = datetime(2026, 11, 3, 3, tzinfo=UTC)
        run = bag.dags["nightly_analysis"].test(logical_date=past, run_after=past)
        states = all_states_of(run)
        assert states.pop("listed_clusters") == "success"
        assert set(states.values()) == {"skipped"}
        page = clients["victor"].get("/kafka-maintenance/report", params={"dag_id": run.dag_id, "run_id": run.run_id})
        assert "date 2026-11-03 not analysed" in page.text
        assert "the nearest are of 2026-11-02, 2026-11-05." in page.text

    @pytest.mark.parametrize("spark", [[finding("old", "broker_down", "critical", brokers=[3])]], indirect=True)
    def test_a_day_is_staged_analysed_published_and_planned_for_and_a_critical_finding_rings(
        self, bag, clients, store, zookeeper, spark, ringing, told_in_ten_lines
    ):
        made = take_old(zookeeper, store, OLD_DAYS[0]).manifest
        day = datetime(2026, 11, 2, 3, tzinfo=UTC)
        told = ringing("nightly_analysis", "no_alarms")
        run = bag.dags["nightly_analysis"].test(logical_date=day, run_after=day)
        story = told_in_ten_lines()
        assert all(words in story for words in ("snapshots to analyse", "report: ", "plans of its snapshot: none"))
        states = all_states_of(run)
        assert states.pop("open_gated_runs") == "skipped"
        assert states.pop("all_clusters_analysed") == "failed"  # alpha has no snapshot
        assert states.pop("no_alarms") == "failed"
        assert [(each["task"], each["run"]) for each in told] == [("no_alarms", run.run_id)]
        alarm = "failed: 1 finding(s) call for a person, 1 of them new:\nnew: old: critical: broker_down of broker(s) 3"
        assert told[0]["text"].startswith(f"nightly_analysis: no_alarms {alarm}")
        assert set(states.values()) == {"success"}
        assert str(run.state) == "failed"
        ((arguments, problems),) = spark
        assert arguments[arguments.index("--date") + 1] == OLD_DAYS[0]
        assert [(problem["cluster"], problem["date"]) for problem in problems] == [("alpha", OLD_DAYS[0])]
        assert problems[0]["reason"].startswith("cluster 'alpha' has no snapshot of 2026-11-02")
        published = xcom_of(run, "publish_report")
        assert published["not_analysed"] == [f"alpha: {problems[0]['reason']}"]
        assert published["report_html"].startswith(f"{store}/v1/analysis/date={OLD_DAYS[0]}/run=")
        assert published["missing"] == ["cluster 'alpha' has no snapshot of 2026-11-02, and none of any other date."]
        assert xcom_of(run, "plan_repairs", 0) == []
        page = clients["victor"].get("/kafka-maintenance/report", params={"dag_id": run.dag_id, "run_id": run.run_id})
        assert page.text == REPORT
        assert made.snapshot_id in (Path(store) / published["manifest"].removeprefix(f"{store}/")).read_text()
        assert list((airflow_home.HOME / "scratch").glob("nightly_analysis.*")) == []

    def test_any_task_of_a_finished_run_may_be_cleared_alone_or_with_all_that_follow(
        self, bag, clients, store, zookeeper, spark
    ):
        from controller_core.adapters.object_store.open import open_store
        from kafka_maintenance.operations.analysis.published import current_analyses

        for cluster in ("alpha", "old"):
            take_old(zookeeper, store, OLD_DAYS[0], cluster)
        dag, day = bag.dags["nightly_analysis"], datetime(2026, 11, 2, 5, tzinfo=UTC)
        run = dag.test(logical_date=day, run_after=day)

        def shown():
            page = clients["victor"].get(
                "/kafka-maintenance/report", params={"dag_id": run.dag_id, "run_id": run.run_id}
            )
            counting = current_analyses(open_store(store), OLD_DAYS[0])
            return page.text, [each.snapshots for each in counting], xcom_of(run, "plan_repairs", 0)

        states, before = all_states_of(run), shown()
        assert (before[0], len(before[1])) == (REPORT, 1)
        for downstream in (False, True):
            for task_id in sorted(dag.task_ids) if not downstream else ["listed_clusters"]:
                cleared = clear_task(clients["ada"], dag.dag_id, run.run_id, task_id, downstream=downstream)
                assert cleared.status_code == 200
                assert cleared.json()["total_entries"] >= 1
                go_on(dag, run)
                assert (task_id, all_states_of(run), shown()) == (task_id, states, before)
        assert len(spark) == 3

    def test_a_run_that_was_deleted_and_made_again_under_its_name_is_published_beside_the_first(
        self, bag, clients, store, zookeeper, spark
    ):
        dag, day = bag.dags["nightly_analysis"], datetime(2026, 11, 2, 6, tzinfo=UTC)
        for cluster, missing in (("old", 1), ("alpha", 0)):
            take_old(zookeeper, store, OLD_DAYS[0], cluster)
            run = dag.test(logical_date=day, run_after=day)
            published = xcom_of(run, "publish_report")
            assert published["manifest"] == published["current"]
            assert len(published["not_analysed"]) == missing
            assert clients["ada"].delete(f"/api/v2/dags/{dag.dag_id}/dagRuns/{run.run_id}").status_code == 204

    def test_a_spark_job_that_fails_publishes_nothing(self, bag, store, zookeeper, monkeypatch):
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        def killed(hook, application):
            raise RuntimeError("killed")

        take_old(zookeeper, store, OLD_DAYS[0])
        dag = bag.dags["nightly_analysis"]
        monkeypatch.setattr(SparkSubmitHook, "submit", killed)
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", '{"conn_type": "spark", "host": "local[2]"}')
        monkeypatch.setattr(dag.get_task("analyse"), "retries", 0)
        day = datetime(2026, 11, 2, 4, tzinfo=UTC)
        states = all_states_of(dag.test(logical_date=day, run_after=day))
        assert (states["analyse"], states["publish_report"]) == ("failed", "upstream_failed")
        assert not (Path(store) / "v1" / "analysis").exists()

    def test_the_wait_for_a_snapshot_ends_with_the_run_that_would_have_made_it(
        self, bag, bag_read_anew, store, monkeypatch
    ):
        from kafka_maintenance.tasks import choice

        now = datetime.now(UTC)
        fired = now.replace(hour=0, minute=0, second=0, microsecond=0)
        monkeypatch.setattr(choice, "SETTINGS", replace(choice.SETTINGS, snapshot_cron="0 0 * * *"))
        snapshots = bag_read_anew.dags["snapshot_metadata"]  # which keeps the `run_conf`
        monkeypatch.setattr(snapshots.get_task("take_snapshot"), "retries", 0)
        ended = snapshots.test(run_conf={"clusters": ["nowhere"]}, logical_date=fired, run_after=fired)
        assert str(ended.state) == "failed"
        run = bag.dags["nightly_analysis"].test(logical_date=now, run_after=now)
        assert all_states_of(run)["choose_snapshots"] == "skipped"
        assert datetime.now(UTC) - now < timedelta(seconds=choice.SETTINGS.snapshot_wait_s)

    @pytest.mark.parametrize(
        ("hour", "under_way", "ended", "over"),
        [(3, 0, 1, True), (3, 1, 1, False), (3, 0, 0, False), (1, 0, 1, False)],
        ids=["failed for good", "cleared, runs again", "never ran", "is due later today"],
    )
    def test_when_nobody_brings_a_snapshot_any_more(self, hour, under_way, ended, over):
        from kafka_maintenance.tasks.choice import snapshots_are_over

        def count(dag_id, states, logical_dates=None):
            assert dag_id == "snapshot_metadata"
            assert logical_dates in (None, [datetime(2026, 11, 5, 1, 30, tzinfo=UTC)])
            return under_way if logical_dates is None else ended

        now = datetime(2026, 11, 5, hour, 0, tzinfo=UTC)
        assert snapshots_are_over(SimpleNamespace(get_dr_count=count), now.date(), now) == over

    def test_nobody_knows_when_a_snapshot_is_due_by_a_wrong_cron(self, monkeypatch):
        from kafka_maintenance.tasks import choice

        monkeypatch.setattr(choice, "SETTINGS", replace(choice.SETTINGS, snapshot_cron="0 0 31 2 *"))
        now = datetime(2026, 11, 5, 3, 0, tzinfo=UTC)
        assert not choice.snapshots_are_over(SimpleNamespace(), now.date(), now)

    def test_the_choice_takes_each_clusters_newest_snapshot_of_the_day(self, store, zookeeper):
        from kafka_maintenance.tasks.choice import choice_of, clusters_listed

        for day in OLD_DAYS:
            take_old(zookeeper, store, day)
        take_old(zookeeper, store, "2026-11-05", "alpha")
        choice = choice_of(date(2026, 11, 5), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["alpha", "old"]
        assert choice["missing"] == []

    def test_the_choice_names_the_nearest_days_of_a_cluster_without_one(self, store, zookeeper):
        from kafka_maintenance.tasks.choice import choice_of, clusters_listed

        for day in OLD_DAYS:
            take_old(zookeeper, store, day)
        choice = choice_of(date(2026, 11, 2), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["old"]
        assert choice["missing"] == [
            {
                "cluster": "alpha",
                "expected": True,
                "awaited": True,
                "note": "cluster 'alpha' has no snapshot of 2026-11-02, and none of any other date.",
            }
        ]

    def test_a_cluster_whose_connection_cannot_be_used_does_not_hold_up_the_others(self, store, zookeeper, monkeypatch):
        from kafka_maintenance.tasks.choice import choice_of, clusters_listed

        take_old(zookeeper, store, OLD_DAYS[0])
        monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "generic"}))
        choice = choice_of(date(2026, 11, 2), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["old"]
        (missing,) = choice["missing"]
        assert (missing["cluster"], missing["expected"], missing["awaited"]) == ("alpha", True, False)
        assert missing["note"].startswith("cluster 'alpha' not used: its connection has no host")

    def test_a_cluster_whose_snapshot_cannot_be_read_does_not_hold_up_the_others(self, store, zookeeper):
        from kafka_maintenance.tasks.choice import choice_of, clusters_listed

        manifest = take_old(zookeeper, store, OLD_DAYS[0], "alpha").manifest
        take_old(zookeeper, store, OLD_DAYS[0])
        write_over(store, manifest.key, b"{")
        choice = choice_of(date(2026, 11, 2), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["old"]
        (missing,) = choice["missing"]
        assert (missing["cluster"], missing["expected"], missing["awaited"]) == ("alpha", True, False)
        assert manifest.key in missing["note"]


@pytest.mark.parametrize(
    ("missed", "wanted"),
    [
        pytest.param([], True, id="a whole date"),
        pytest.param(["alpha: damaged"], False, id="not wanted, as in a backfill"),
    ],
)
def test_a_day_passes(monkeypatch, missed, wanted):
    from kafka_maintenance.tasks import analysis

    monkeypatch.setattr(analysis, "context_of_run", lambda: {"params": {"fail_if_incomplete": wanted}})
    assert analysis.all_clusters_analysed.function({"not_analysed": missed}) is None


def test_a_day_that_lacks_a_cluster_fails_at_once_and_names_it(monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException

    from kafka_maintenance.tasks import analysis

    monkeypatch.setattr(analysis, "context_of_run", lambda: {"params": {"fail_if_incomplete": True}})
    report = {"date": "2026-11-02", "report_html": "/s/report.html", "not_analysed": ["alpha: damaged", "beta: gone"]}
    message = "date 2026-11-02 not analysed for every cluster: alpha: damaged; beta: gone; the others are in /s/report"
    with pytest.raises(AirflowFailException, match=message):
        analysis.all_clusters_analysed.function(report)
