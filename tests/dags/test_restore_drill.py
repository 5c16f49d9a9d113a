"""`restore_drill` brings the newest snapshots of the clusters back, each into a ZooKeeper of its own."""

import json

import pytest

from tests.dags.archive import OLD_DAYS, take_old, write_over
from tests.dags.runs import all_states_of, xcom_of


class TestBrokersOfTheDrill:
    @pytest.fixture(autouse=True)
    def clusters(self, monkeypatch):
        """`beta` and `gamma` name their Kafka version, `alpha` does not."""
        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["alpha", "beta", "gamma"]')
        for name, extra in (("alpha", {}), ("beta", {"kafka_version": "3.9"}), ("gamma", {"kafka_version": "2.8"})):
            connection = {"conn_type": "generic", "host": "zk1", "extra": extra}
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))

    @pytest.mark.parametrize(
        ("only", "brokers", "versions"),
        [
            pytest.param(None, None, [None, "3.9", None], id="the first that names its version"),
            pytest.param(None, "gamma", [None, None, "2.8"], id="the named one"),
            pytest.param(["alpha"], None, [None], id="nobody names one"),
        ],
    )
    def test_are_started_for_one_cluster(self, only, brokers, versions):
        from kafka_maintenance.tasks.restore_drill import clusters_to_drill

        assert [each["kafka_version"] for each in clusters_to_drill.function(only, brokers)] == versions

    def test_are_not_those_of_a_version_that_cannot_be_started(self, monkeypatch):
        from kafka_maintenance.operations.errors import BadInputError
        from kafka_maintenance.tasks.restore_drill import clusters_to_drill

        connection = {"conn_type": "generic", "host": "zk1", "extra": {"kafka_version": "2.5"}}
        monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps(connection))
        assert [each["kafka_version"] for each in clusters_to_drill.function(None, None)] == [None, "3.9", None]
        with pytest.raises(
            BadInputError, match=r"names its kafka_version, and one of 0\.10\.2, .*, 3\.9, those are beta"
        ):
            clusters_to_drill.function(None, "alpha")

    @pytest.mark.parametrize(
        ("only", "brokers"),
        [
            pytest.param(None, "gmama", id="a misspelt name"),
            pytest.param(None, "alpha", id="no version"),
            pytest.param(["alpha", "beta"], "gamma", id="not in this drill"),
        ],
    )
    def test_are_refused_for_a_cluster_that_cannot_have_them(self, only, brokers):
        from kafka_maintenance.operations.errors import BadInputError
        from kafka_maintenance.tasks.restore_drill import clusters_to_drill

        with pytest.raises(BadInputError, match=f"brokers of '{brokers}' not started: .* those are beta"):
            clusters_to_drill.function(only, brokers)


@pytest.mark.services
class TestRestoreDrill:
    def test_the_newest_snapshot_of_every_cluster_is_restored_and_a_cluster_without_one_fails(
        self, bag, store, zookeeper, ringing, told_in_ten_lines
    ):
        take_old(zookeeper, store, OLD_DAYS[0])
        told = ringing("restore_drill", "drill")
        run = bag.dags["restore_drill"].test(logical_date=None)
        assert all_states_of(run) == {"clusters_to_drill": "success", "drill[0]": "failed", "drill[1]": "success"}
        assert run.state == "failed"  # alpha is listed and has no snapshot
        assert "old" in told_in_ten_lines()
        assert [(each["task"], each["cluster"]) for each in told] == [("drill", "alpha")]
        assert told[0]["text"].startswith("restore_drill on alpha: drill failed: ")
        found = xcom_of(run, "drill", 1)
        assert found["cluster"] == "old"
        assert found["restored"] > 5
        assert found["brokers"] is None

    def test_a_damaged_snapshot_fails_its_drill(self, bag, store, zookeeper, tmp_path, monkeypatch):
        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["old"]')
        manifest = take_old(zookeeper, store, OLD_DAYS[0]).manifest
        raw = manifest.object("raw").key
        write_over(store, raw, (tmp_path / raw).read_bytes()[:-1] + b"x")
        run = bag.dags["restore_drill"].test(logical_date=None)
        assert all_states_of(run)["drill[0]"] == "failed"
