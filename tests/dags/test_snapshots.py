"""`snapshot_metadata` on a real ZooKeeper and a folder store: one snapshot a run, none of a past date."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from tests.dags.archive import snapshots_in
from tests.dags.runs import all_states_of, xcom_of

NOBODY_TO_ASK = {"live_clusters": "success", "clusters_to_ask": "success", "measure_disks": "skipped"}


@pytest.mark.services
class TestSnapshotMetadata:
    def test_every_live_cluster_gets_a_snapshot_and_announces_it_and_a_store_without_room_rings(
        self, bag, store, receiver, monkeypatch, told_in_ten_lines
    ):
        from airflow.models.asset import AssetEvent, AssetModel
        from airflow.utils.session import create_session

        from kafka_maintenance.tasks import notifiers, snapshots

        monkeypatch.setattr(notifiers, "NOTIFIERS", [notifiers.WebhookNotifier(receiver.url)])
        monkeypatch.setattr(snapshots, "SETTINGS", replace(snapshots.SETTINGS, store_free_percent=100))
        begun = datetime.now(UTC)
        run = bag.dags["snapshot_metadata"].test(logical_date=None)
        assert "cluster alpha: snapshot " in told_in_ten_lines()
        (full,) = receiver.taken
        assert full["text"].startswith(f"snapshot_metadata: announce_snapshots the store is nearly full: {store} has ")
        assert "GiB free, expected 100 % or more" in full["text"]
        taken = dict.fromkeys(("take_snapshot[0]", "announce_snapshots", "all_snapshots_taken"), "success")
        assert all_states_of(run) == {**NOBODY_TO_ASK, **taken}
        (manifest,) = snapshots_in(store)
        assert (manifest.cluster, manifest.consistent) == ("alpha", True)
        assert str(begun.date()) <= manifest.date <= str(datetime.now(UTC).date())
        with create_session() as session:
            query = session.query(AssetEvent).join(AssetModel, AssetEvent.asset_id == AssetModel.id)
            events = [event.extra for event in query if event.source_run_id == run.run_id]
        assert events == [{"date": manifest.date, "snapshots": {"alpha": manifest.snapshot_id}, "missing": []}]
        (ti,) = [ti for ti in run.get_task_instances() if ti.task_id == "take_snapshot"]
        assert ti.rendered_map_index == "cluster alpha"

    def test_where_brokers_may_be_asked_their_disks_are_measured_and_analysed(self, bag, store, monkeypatch):
        from kafka_maintenance.operations.analysis import disks
        from kafka_maintenance.operations.cluster.log_dirs import BrokerTooOldError

        alpha = json.loads(os.environ["AIRFLOW_CONN_ALPHA"])
        alpha["extra"] |= {"bootstrap_servers": "b:9092", "client_settings": {"security_protocol": "SSL"}}
        monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps(alpha))
        asked = []

        def answer(brokers, *_, **__):
            asked.append((brokers.bootstrap_servers, dict(brokers.client)))
            if len(asked) > 1:
                raise BrokerTooOldError("of Kafka 2.0 or later expected")
            return {1: [{"log_dir": "/data", "error_code": 0, "topics": []}]}, {}

        monkeypatch.setattr(disks, "answers_of", answer)
        run = bag.dags["snapshot_metadata"].test(logical_date=None)
        assert all_states_of(run)["measure_disks[0]"] == "success"
        assert asked == [("b:9092", {"security_protocol": "SSL"})]
        key = xcom_of(run, "measure_disks", map_index=0)
        assert open_store(store).list(disks.PREFIX) == [key]
        run = bag.dags["snapshot_metadata"].test(logical_date=None)
        assert all_states_of(run)["measure_disks[0]"] == "skipped"
        assert all_states_of(run)["take_snapshot[0]"] == "success"

    def test_a_run_of_a_past_date_takes_none_and_says_so(self, bag, store):
        past = datetime.now(UTC) - timedelta(days=2)
        run = bag.dags["snapshot_metadata"].test(logical_date=past, run_after=past)
        assert (all_states_of(run)["take_snapshot[0]"], all_states_of(run)["announce_snapshots"]) == (
            "skipped",
            "skipped",
        )
        assert snapshots_in(store) == []

    def test_a_cleared_task_makes_no_second_snapshot_of_its_run(self, bag, store):
        """`dag.test()` with the same date clears the run and runs it again."""
        now = datetime.now(UTC)
        for _ in range(2):
            run = bag.dags["snapshot_metadata"].test(logical_date=now, run_after=now)
            assert all_states_of(run)["take_snapshot[0]"] == "success"
        assert len(snapshots_in(store)) == 1

    def test_a_run_that_was_made_again_under_the_id_of_one_that_is_deleted_takes_its_own_and_finds_it_after_a_clear(
        self, store, zookeeper, monkeypatch
    ):
        from kafka_maintenance.operations.snapshots.take import take_snapshot
        from kafka_maintenance.tasks import snapshots

        now = datetime.now(UTC)
        run = SimpleNamespace(dag_id="snapshot_metadata", run_id="before-upgrade", logical_date=None)
        run.run_after, run.start_date, run.clear_number = now, now, 0
        monkeypatch.setattr(snapshots, "context_of_run", lambda: {"dag_run": run})
        monkeypatch.setattr(snapshots, "label", lambda _: None)
        monkeypatch.setattr(snapshots, "tell_lineage", lambda **_: None)
        where = {"address": ClusterAddress(f"{zookeeper.hosts}/kafka"), "cluster": "alpha", "store": open_store(store)}
        take_snapshot(**where, run_id="snapshot_metadata.before-upgrade", now=now - timedelta(days=7))
        taken = [snapshots.take_snapshot.function("alpha") for _ in range(2)]
        assert (
            taken[0] == taken[1] == snapshots.stored_snapshot("alpha", now.date(), "snapshot_metadata.before-upgrade")
        )
        assert taken[0]["date"] == str(now.date())
        assert len(snapshots_in(store)) == 2
        run.start_date += timedelta(seconds=1)  # of a run of the same date, too
        taken.append(snapshots.take_snapshot.function("alpha"))
        assert taken[2] == snapshots.take_snapshot.function("alpha") != taken[1]
        run.start_date, run.clear_number = run.start_date + timedelta(hours=1), 1
        assert snapshots.take_snapshot.function("alpha") == taken[2]
        assert len(snapshots_in(store)) == 3

    def test_a_cluster_that_cannot_be_used_fails_alone(self, bag, store):
        run = bag.dags["snapshot_metadata"].test(logical_date=None, run_conf={"clusters": ["nobody", "alpha"]})
        assert all_states_of(run) == {
            **NOBODY_TO_ASK,
            "take_snapshot[0]": "failed",
            "take_snapshot[1]": "success",
            "announce_snapshots": "success",
            "all_snapshots_taken": "upstream_failed",
        }
        assert str(run.state) == "failed"
        assert run.get_task_instance("announce_snapshots").xcom_pull(task_ids="announce_snapshots") == ["nobody"]
        assert [manifest.cluster for manifest in snapshots_in(store)] == ["alpha"]

    def test_a_day_with_a_key_holds_secrets_and_its_drill_brings_them_back(
        self, bag, store, monkeypatch, zookeeper, key_file
    ):
        from controller_core.adapters.snapshot.secrets import Sealer
        from controller_core.adapters.zookeeper.session import connect
        from kafka_maintenance.operations.snapshots.catalog import read_raw
        from kafka_maintenance.tasks import restore_drill

        user = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=abc,stored_key=s3cr3t"}}'
        with connect(f"{zookeeper.hosts}/kafka") as session:
            session.create("/config/users/alice", user, make_parents=True)
            run = bag.dags["snapshot_metadata"].test(logical_date=None, run_conf={"clusters": ["alpha"]})
            session.delete("/config/users/alice", -1)
        assert all_states_of(run)["take_snapshot[0]"] == "success"
        (manifest,) = snapshots_in(store)
        assert (manifest.key_id, manifest.redacted) == (Sealer.from_file(key_file).key_id, ("/config/users/alice",))
        assert [data for data in read_raw(open_store(store), manifest)["sealed"].to_pylist() if data]
        monkeypatch.setattr(restore_drill, "label", lambda _: None)
        report = restore_drill.drill.function({"cluster": "alpha", "kafka_version": None})
        assert "secret" not in " ".join(report["left_out"])

    def test_a_key_file_that_is_not_there_fails_before_anything_is_read(
        self, bag, store, monkeypatch, zookeeper, key_file
    ):
        from controller_core.model.errors import SnapshotKeyError
        from kafka_maintenance.operations.restore import drill as operation
        from kafka_maintenance.operations.snapshots import take as snapshot
        from kafka_maintenance.tasks import restore_drill, snapshots

        touched = []
        monkeypatch.setattr(snapshot.ClusterAddress, "session", lambda *_, **__: touched.append("cluster"))
        monkeypatch.setattr(operation, "stop_orphans", lambda: touched.append("processes"))
        monkeypatch.setattr(operation, "_chosen", lambda *_: touched.append("store"))
        monkeypatch.setattr(restore_drill, "label", lambda _: None)
        key_file.unlink()
        with pytest.raises(SnapshotKeyError, match=r"day\.key' not read: No such file or directory; correct the path"):
            snapshots.snapshot_of_run("alpha", "run")
        with pytest.raises(SnapshotKeyError, match=r"day\.key' not read"):
            restore_drill.drill.function({"cluster": "alpha", "kafka_version": None})
        assert touched == []

    def test_a_wrong_chroot_leaves_nothing_in_the_store(self, bag, store, monkeypatch, zookeeper):
        alpha = {"conn_type": "generic", "host": zookeeper.hosts, "extra": {"chroot": "/elsewhere"}}
        monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps(alpha))
        run = bag.dags["snapshot_metadata"].test(logical_date=None)
        assert all_states_of(run)["take_snapshot[0]"] == "failed"
        assert snapshots_in(store) == []
