"""Runs for several clusters: what fails for one of them holds up no other."""

from datetime import UTC, datetime

import pytest

from tests.dags.archive import OLD_DAYS, take_old
from tests.dags.runs import all_states_of


@pytest.mark.services
class TestOneClusterOfAFleet:
    """What fails for one cluster fails its run, and holds up no other cluster."""

    @pytest.fixture(autouse=True)
    def fleet(self, store, monkeypatch):
        """Beside `alpha` and `old` Airflow lists `lost`, which has no connection."""
        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["lost", "alpha", "old"]')

    def test_notifications_of_the_others_are_looked_at(self, bag):
        run = bag.dags["drain_isr_notifications"].test(logical_date=None)
        states = all_states_of(run)
        assert (states["report_notifications[0]"], states["all_clusters_reported"]) == ("success", "failed")
        assert (states["lingering_runs"], run.state) == ("success", "failed")

    def test_gated_runs_of_the_others_are_opened(self, bag, store, zookeeper, spark, monkeypatch):
        from kafka_maintenance.tasks import plans

        def repairs_of(_store, cluster, _manifest):
            if cluster == "alpha":
                raise RuntimeError("its plans cannot be made")
            return []

        for cluster in ("alpha", "old"):
            take_old(zookeeper, store, OLD_DAYS[0], cluster)
        dag = bag.dags["nightly_analysis"]
        monkeypatch.setattr(plans, "repairs_of", repairs_of)
        monkeypatch.setattr(dag.get_task("plan_repairs"), "retries", 0)
        day = datetime(2026, 11, 2, 5, tzinfo=UTC)
        run = dag.test(logical_date=day, run_after=day)
        states = all_states_of(run)
        assert (states["plan_repairs[0]"], states["plan_repairs[1]"]) == ("failed", "success")
        assert (states["gated_runs"], states["all_clusters_planned"], run.state) == (
            "success",
            "upstream_failed",
            "failed",
        )

    def test_the_drill_is_for_each_of_them(self, store):
        from kafka_maintenance.tasks.restore_drill import clusters_to_drill

        assert [each["cluster"] for each in clusters_to_drill.function(None, None)] == ["lost", "alpha", "old"]
        assert [each["cluster"] for each in clusters_to_drill.function(["alhpa", "alhpa"], None)] == ["alhpa"]
