"""The snapshot and analysis DAGs on a real ZooKeeper and a folder store: one snapshot a run, none of a past date."""

import base64
import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from tests import airflow_home
from tests.dags.test_gates import WHEN_OPENED, _clear, _go_on
from tests.dags.world import BROKERS, registration
from tests.kafka_maintenance.operations.analysis.test_alarms import finding, table_of

REPORT = "<h1>Kafka maintenance report</h1>"
NOBODY_TO_ASK = {"live_clusters": "success", "clusters_to_ask": "success", "measure_disks": "skipped"}
OLD_DAYS = ("2026-11-02", "2026-11-05")


@pytest.fixture(scope="module")
def zookeeper():
    """A real ZooKeeper with the tree of a small cluster under the chroot /kafka."""
    from controller_core.adapters.zookeeper.session import connect
    from kafka_maintenance.servers.zookeeper import ZooKeeperServer

    with ZooKeeperServer() as server, connect(f"{server.hosts}/kafka", create_chroot=True) as session:
        session.create("/cluster/id", b'{"version":"1","id":"real"}', make_parents=True)
        session.create("/controller_epoch", b"3")
        session.create("/brokers/ids", make_parents=True)
        for broker in BROKERS:  # ephemeral, as brokers do: they live as long as this session
            session.create(f"/brokers/ids/{broker}", json.dumps(registration(broker)).encode(), ephemeral=True)
        topic = {"version": 2, "partitions": {"0": [1, 2, 3]}, "adding_replicas": {}, "removing_replicas": {}}
        session.create("/brokers/topics/orders", json.dumps(topic).encode(), make_parents=True)
        state = {"controller_epoch": 3, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
        path = "/brokers/topics/orders/partitions/0/state"
        session.create(path, json.dumps(state).encode(), make_parents=True)
        yield server


@pytest.fixture
def store(zookeeper, monkeypatch, tmp_path):
    """A folder store; Airflow knows `alpha` (the real tree) and `old` (archived, its ZooKeeper is gone)."""
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["alpha", "old"]')
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", str(tmp_path))
    alpha = {"conn_type": "generic", "host": zookeeper.hosts, "extra": {"chroot": "/kafka"}}
    old = {"conn_type": "generic", "host": "127.0.0.1:1", "extra": {"archived": True}}
    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps(alpha))
    monkeypatch.setenv("AIRFLOW_CONN_OLD", json.dumps(old))
    return str(tmp_path)


@pytest.fixture
def key_file(monkeypatch, tmp_path_factory):
    """A key that the tasks take, as `KAFKA_MAINTENANCE_SNAPSHOT_KEY_FILE` names it."""
    from kafka_maintenance.tasks import restore_drill, snapshots

    path = tmp_path_factory.mktemp("key") / "day.key"
    path.write_bytes(base64.b64encode(os.urandom(32)))
    for tasks in (snapshots, restore_drill):
        monkeypatch.setattr(tasks, "SETTINGS", replace(tasks.SETTINGS, snapshot_key_file=path))
    return path


@pytest.fixture
def spark(monkeypatch, request):
    """Spark replaced by the files that its job leaves, the param as its findings; yields of each job its command line, and the problems that it is told."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from kafka_maintenance.operations.snapshots.catalog import list_snapshots
    from spark_jobs.io.delivery import deliver
    from spark_jobs.io.folders import Folder

    jobs = []

    def submit(hook, application):
        arguments = hook._application_args
        problems = json.loads(Path(arguments[arguments.index("--problems") + 1]).read_text())
        jobs.append((arguments, problems))
        output = Path(arguments[arguments.index("--output") + 1])
        output.mkdir(parents=True, exist_ok=True)
        clusters = {
            manifest.cluster: {"snapshot_id": manifest.snapshot_id, "snapshot_digest": manifest.digest}
            for manifest in list_snapshots(open_store(os.environ["AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE"]))
        }
        gaps = [{"cluster": "old", "stage": "history", "reason": "an earlier date is damaged"}]
        missed = [{"cluster": each["cluster"], "stage": "fetch", "reason": each["reason"]} for each in problems]
        (output / "summary.json").write_text(json.dumps({"clusters": clusters, "not_analysed": gaps + missed}))
        (output / "report.html").write_text(REPORT)
        (output / "report.md").write_text("# Report")
        (output / "findings").mkdir(exist_ok=True)
        (output / "findings" / "part-0.parquet").write_bytes(table_of(*getattr(request, "param", ())))
        files = ["report.html", "report.md", "summary.json", "findings/part-0.parquet"]
        deliver(Folder(LocalFileSystem(), str(output), str(output)), files)

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", '{"conn_type": "spark", "host": "local[2]"}')
    return jobs


def _write_over(store, key, content):
    path = Path(store) / key
    path.chmod(0o644)
    path.write_bytes(content)


def _take_old(zookeeper, store, day, cluster="old"):
    """A snapshot of an earlier date, recorded under another name."""
    from kafka_maintenance.operations.snapshots.take import take_snapshot

    now = datetime.fromisoformat(f"{day}T01:30:00+00:00")
    return take_snapshot(
        address=ClusterAddress(f"{zookeeper.hosts}/kafka"),
        cluster=cluster,
        store=open_store(store),
        run_id=f"date-{day}",
        now=now,
    )


def _states(run):
    return {
        f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id: str(ti.state)
        for ti in run.get_task_instances()
    }


def _xcom(run, task_id, map_index=-1):
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(
            run_id=run.run_id, dag_ids=run.dag_id, task_ids=task_id, key="return_value", map_indexes=map_index
        )
        row = session.scalars(query).first()
        return XComModel.deserialize_value(row) if row else None


def _want_retry(run, task_id):
    from airflow.utils.session import create_session

    with create_session() as session:
        run.get_task_instance(task_id, session=session).state = None


def _snapshots(store, cluster=None):
    from kafka_maintenance.operations.snapshots.catalog import list_snapshots

    return list_snapshots(open_store(store), cluster)


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
        assert _states(run) == {**NOBODY_TO_ASK, **taken}
        (manifest,) = _snapshots(store)
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
        assert _states(run)["measure_disks[0]"] == "success"
        assert asked == [("b:9092", {"security_protocol": "SSL"})]
        key = _xcom(run, "measure_disks", map_index=0)
        assert open_store(store).list(disks.PREFIX) == [key]
        run = bag.dags["snapshot_metadata"].test(logical_date=None)
        assert _states(run)["measure_disks[0]"] == "skipped"
        assert _states(run)["take_snapshot[0]"] == "success"

    def test_a_run_of_a_past_date_takes_none_and_says_so(self, bag, store):
        past = datetime.now(UTC) - timedelta(days=2)
        run = bag.dags["snapshot_metadata"].test(logical_date=past, run_after=past)
        assert (_states(run)["take_snapshot[0]"], _states(run)["announce_snapshots"]) == ("skipped", "skipped")
        assert _snapshots(store) == []

    def test_a_cleared_task_makes_no_second_snapshot_of_its_run(self, bag, store):
        """`dag.test()` with the same date clears the run and runs it again."""
        now = datetime.now(UTC)
        for _ in range(2):
            run = bag.dags["snapshot_metadata"].test(logical_date=now, run_after=now)
            assert _states(run)["take_snapshot[0]"] == "success"
        assert len(_snapshots(store)) == 1

    def test_a_cluster_that_cannot_be_used_fails_alone(self, bag, store):
        run = bag.dags["snapshot_metadata"].test(logical_date=None, run_conf={"clusters": ["nobody", "alpha"]})
        assert _states(run) == {
            **NOBODY_TO_ASK,
            "take_snapshot[0]": "failed",
            "take_snapshot[1]": "success",
            "announce_snapshots": "success",
            "all_snapshots_taken": "upstream_failed",
        }
        assert str(run.state) == "failed"
        assert run.get_task_instance("announce_snapshots").xcom_pull(task_ids="announce_snapshots") == ["nobody"]
        assert [manifest.cluster for manifest in _snapshots(store)] == ["alpha"]

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
        assert _states(run)["take_snapshot[0]"] == "success"
        (manifest,) = _snapshots(store)
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
        assert _states(run)["take_snapshot[0]"] == "failed"
        assert _snapshots(store) == []


@pytest.mark.services
class TestNightlyAnalysis:
    def test_a_day_without_any_snapshot_is_skipped_with_a_note_on_its_page(self, bag, clients, store, zookeeper):
        for day in OLD_DAYS:
            _take_old(zookeeper, store, day)
        past = datetime(2026, 11, 3, 3, tzinfo=UTC)
        run = bag.dags["nightly_analysis"].test(logical_date=past, run_after=past)
        states = _states(run)
        assert states.pop("listed_clusters") == "success"
        assert set(states.values()) == {"skipped"}
        page = clients["victor"].get("/kafka-maintenance/report", params={"dag_id": run.dag_id, "run_id": run.run_id})
        assert "date 2026-11-03 not analysed" in page.text
        assert "the nearest are of 2026-11-02, 2026-11-05." in page.text

    @pytest.mark.parametrize("spark", [[finding("old", "broker_down", "critical", brokers=[3])]], indirect=True)
    def test_a_day_is_staged_analysed_published_and_planned_for_and_a_critical_finding_rings(
        self, bag, clients, store, zookeeper, spark, ringing, told_in_ten_lines
    ):
        made = _take_old(zookeeper, store, OLD_DAYS[0]).manifest
        day = datetime(2026, 11, 2, 3, tzinfo=UTC)
        told = ringing("nightly_analysis", "no_alarms")
        run = bag.dags["nightly_analysis"].test(logical_date=day, run_after=day)
        story = told_in_ten_lines()
        assert all(words in story for words in ("snapshots to analyse", "report: ", "plans of its snapshot: none"))
        states = _states(run)
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
        published = _xcom(run, "publish_report")
        assert published["not_analysed"] == [f"alpha: {problems[0]['reason']}"]
        assert published["report_html"].startswith(f"{store}/v1/analysis/date={OLD_DAYS[0]}/run=")
        assert published["missing"] == ["cluster 'alpha' has no snapshot of 2026-11-02, and none of any other date."]
        assert _xcom(run, "plan_repairs", 0) == []
        page = clients["victor"].get("/kafka-maintenance/report", params={"dag_id": run.dag_id, "run_id": run.run_id})
        assert page.text == REPORT
        assert made.snapshot_id in (Path(store) / published["manifest"].removeprefix(f"{store}/")).read_text()
        assert list((airflow_home.HOME / "scratch").glob("nightly_analysis.*")) == []

    def test_a_spark_job_that_fails_publishes_nothing(self, bag, store, zookeeper, monkeypatch):
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        def killed(hook, application):
            raise RuntimeError("killed")

        _take_old(zookeeper, store, OLD_DAYS[0])
        dag = bag.dags["nightly_analysis"]
        monkeypatch.setattr(SparkSubmitHook, "submit", killed)
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", '{"conn_type": "spark", "host": "local[2]"}')
        monkeypatch.setattr(dag.get_task("analyse"), "retries", 0)
        day = datetime(2026, 11, 2, 4, tzinfo=UTC)
        states = _states(dag.test(logical_date=day, run_after=day))
        assert (states["analyse"], states["publish_report"]) == ("failed", "upstream_failed")
        assert not (Path(store) / "v1" / "analysis").exists()

    def test_the_wait_for_a_snapshot_ends_with_the_run_that_would_have_made_it(self, bag, store, monkeypatch):
        from kafka_maintenance.tasks import analysis

        now = datetime.now(UTC)
        fired = now.replace(hour=0, minute=0, second=0, microsecond=0)
        monkeypatch.setattr(analysis, "SETTINGS", replace(analysis.SETTINGS, snapshot_cron="0 0 * * *"))
        snapshots = bag.dags["snapshot_metadata"]
        monkeypatch.setattr(snapshots.get_task("take_snapshot"), "retries", 0)
        ended = snapshots.test(run_conf={"clusters": ["nowhere"]}, logical_date=fired, run_after=fired)
        assert str(ended.state) == "failed"
        run = bag.dags["nightly_analysis"].test(logical_date=now, run_after=now)
        assert _states(run)["choose_snapshots"] == "skipped"
        assert datetime.now(UTC) - now < timedelta(seconds=analysis.SETTINGS.snapshot_wait_s)

    @pytest.mark.parametrize(
        ("hour", "under_way", "ended", "over"),
        [(3, 0, 1, True), (3, 1, 1, False), (3, 0, 0, False), (1, 0, 1, False)],
        ids=["failed for good", "cleared, runs again", "never ran", "is due later today"],
    )
    def test_when_nobody_brings_a_snapshot_any_more(self, hour, under_way, ended, over):
        from kafka_maintenance.tasks.analysis import snapshots_are_over

        def count(dag_id, states, logical_dates=None):
            assert dag_id == "snapshot_metadata"
            assert logical_dates in (None, [datetime(2026, 11, 5, 1, 30, tzinfo=UTC)])
            return under_way if logical_dates is None else ended

        now = datetime(2026, 11, 5, hour, 0, tzinfo=UTC)
        assert snapshots_are_over(SimpleNamespace(get_dr_count=count), now.date(), now) == over

    def test_the_choice_takes_each_clusters_newest_snapshot_of_the_day(self, store, zookeeper):
        from kafka_maintenance.tasks.analysis import choice_of, clusters_listed

        for day in OLD_DAYS:
            _take_old(zookeeper, store, day)
        _take_old(zookeeper, store, "2026-11-05", "alpha")
        choice = choice_of(date(2026, 11, 5), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["alpha", "old"]
        assert choice["missing"] == []

    def test_the_choice_names_the_nearest_days_of_a_cluster_without_one(self, store, zookeeper):
        from kafka_maintenance.tasks.analysis import choice_of, clusters_listed

        for day in OLD_DAYS:
            _take_old(zookeeper, store, day)
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
        from kafka_maintenance.tasks.analysis import choice_of, clusters_listed

        _take_old(zookeeper, store, OLD_DAYS[0])
        monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "generic"}))
        choice = choice_of(date(2026, 11, 2), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["old"]
        (missing,) = choice["missing"]
        assert (missing["cluster"], missing["expected"], missing["awaited"]) == ("alpha", True, False)
        assert missing["note"].startswith("cluster 'alpha' not used: its connection has no host")

    def test_a_cluster_whose_snapshot_cannot_be_read_does_not_hold_up_the_others(self, store, zookeeper):
        from kafka_maintenance.tasks.analysis import choice_of, clusters_listed

        manifest = _take_old(zookeeper, store, OLD_DAYS[0], "alpha").manifest
        _take_old(zookeeper, store, OLD_DAYS[0])
        _write_over(store, manifest.key, b"{")
        choice = choice_of(date(2026, 11, 2), clusters_listed())
        assert [chosen["cluster"] for chosen in choice["snapshots"]] == ["old"]
        (missing,) = choice["missing"]
        assert (missing["cluster"], missing["expected"], missing["awaited"]) == ("alpha", True, False)
        assert manifest.key in missing["note"]


@pytest.mark.services
class TestOneClusterOfAFleet:
    """What fails for one cluster fails its run, and holds up no other cluster."""

    @pytest.fixture(autouse=True)
    def fleet(self, store, monkeypatch):
        """Beside `alpha` and `old` Airflow lists `lost`, which has no connection."""
        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["lost", "alpha", "old"]')

    def test_notifications_of_the_others_are_looked_at(self, bag):
        run = bag.dags["drain_isr_notifications"].test(logical_date=None)
        states = _states(run)
        assert (states["report_notifications[0]"], states["all_clusters_reported"]) == ("success", "failed")
        assert (states["lingering_runs"], run.state) == ("success", "failed")

    def test_gated_runs_of_the_others_are_opened(self, bag, store, zookeeper, spark, monkeypatch):
        from kafka_maintenance.tasks import plans

        def repairs_of(_store, cluster, _manifest):
            if cluster == "alpha":
                raise RuntimeError("its plans cannot be made")
            return []

        for cluster in ("alpha", "old"):
            _take_old(zookeeper, store, OLD_DAYS[0], cluster)
        dag = bag.dags["nightly_analysis"]
        monkeypatch.setattr(plans, "repairs_of", repairs_of)
        monkeypatch.setattr(dag.get_task("plan_repairs"), "retries", 0)
        day = datetime(2026, 11, 2, 5, tzinfo=UTC)
        run = dag.test(logical_date=day, run_after=day)
        states = _states(run)
        assert (states["plan_repairs[0]"], states["plan_repairs[1]"]) == ("failed", "success")
        assert (states["gated_runs"], states["all_clusters_planned"], run.state) == (
            "success",
            "upstream_failed",
            "failed",
        )

    def test_the_drill_is_for_each_of_them(self, store):
        from kafka_maintenance.tasks.restore_drill import clusters_to_drill

        assert [each["cluster"] for each in clusters_to_drill.function(None, None)] == ["lost", "alpha", "old"]
        assert [each["cluster"] for each in clusters_to_drill.function(["alhpa"], None)] == ["alhpa"]


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
        _take_old(zookeeper, store, OLD_DAYS[0])
        told = ringing("restore_drill", "drill")
        run = bag.dags["restore_drill"].test(logical_date=None)
        assert _states(run) == {"clusters_to_drill": "success", "drill[0]": "failed", "drill[1]": "success"}
        assert run.state == "failed"  # alpha is listed and has no snapshot
        assert "old" in told_in_ten_lines()
        assert [(each["task"], each["cluster"]) for each in told] == [("drill", "alpha")]
        assert told[0]["text"].startswith("restore_drill on alpha: drill failed: ")
        found = _xcom(run, "drill", 1)
        assert found["cluster"] == "old"
        assert found["restored"] > 5
        assert found["brokers"] is None

    def test_a_damaged_snapshot_fails_its_drill(self, bag, store, zookeeper, tmp_path, monkeypatch):
        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["old"]')
        manifest = _take_old(zookeeper, store, OLD_DAYS[0]).manifest
        raw = manifest.object("raw").key
        _write_over(store, raw, (tmp_path / raw).read_bytes()[:-1] + b"x")
        run = bag.dags["restore_drill"].test(logical_date=None)
        assert _states(run)["drill[0]"] == "failed"


@pytest.mark.services
def test_a_gated_run_that_is_cleared_plans_on_the_present_and_a_retry_on_what_it_had(bag, clients, store):
    dag = bag.dags["elect_preferred_leaders"]
    conf = {"cluster": "alpha", "plan": None}  # `dag.test()` keeps a run's params as the defaults of the next one
    run = dag.test(logical_date=None, run_conf=conf)
    first = _xcom(run, "snapshot_to_plan")
    _want_retry(run, "snapshot_to_plan")
    assert _go_on(dag, run)["snapshot_to_plan"] == "success"
    assert _xcom(run, "snapshot_to_plan") == first
    assert _clear(clients["ada"], dag.dag_id, run.run_id, "snapshot_to_plan").status_code == 200
    assert _go_on(dag, run)["snapshot_to_plan"] == "success"
    assert _xcom(run, "snapshot_to_plan") != first
    assert len(_snapshots(store)) == 2


PLANS = [[{"kind": "elect_preferred_leaders", "cluster": "alpha", "digest": "a" * 64}]]


def chosen_today():
    return {"date": datetime.now(UTC).date().isoformat()}


@pytest.mark.parametrize("dag_id", ["drain_isr_notifications", "nightly_analysis", "retain_snapshots"])
def test_a_gated_run_is_opened_once_and_never_in_a_paused_dag(bag, dag_id):
    opening = bag.dags[dag_id].get_task("open_gated_runs")
    assert opening.partial_kwargs["skip_when_already_exists"]
    assert opening.partial_kwargs["fail_when_dag_is_paused"]


@pytest.mark.parametrize(
    ("paused", "opened", "outcome"),
    [
        pytest.param(True, "failed", "failed", id="nobody would be asked"),
        pytest.param(False, "success", "success", id="its gate will ask"),
    ],
)
def test_a_run_fails_that_would_open_gated_runs_of_a_paused_dag(bag, world, monkeypatch, paused, opened, outcome):
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    from kafka_maintenance.operations.cluster import isr_notifications

    report = SimpleNamespace(text="it lingers", count=1, lingering=True, oldest=f"isr_change_{paused}", requests=())
    monkeypatch.setattr(isr_notifications, "report", lambda **_: report)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
    dag = bag.dags["drain_isr_notifications"]
    monkeypatch.setattr(dag.get_task("open_gated_runs"), "retries", 0)
    dag.test(logical_date=None, mark_success_pattern=".*")  # makes the DAG known to the database
    with create_session() as session:
        session.get(DagModel, dag.dag_id).is_paused = paused
    run = dag.test(logical_date=None)
    assert (_states(run)["open_gated_runs[0]"], run.state) == (opened, outcome)


class TestGatedRuns:
    def test_none_is_opened_by_default(self):
        from kafka_maintenance.tasks.analysis import gated_runs

        assert gated_runs.function(PLANS, chosen_today()) == []

    def test_one_per_plan_where_the_variable_allows_it(self, monkeypatch):
        from kafka_maintenance.tasks.analysis import gated_runs

        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
        (opened,) = gated_runs.function(PLANS, chosen_today())
        assert opened["trigger_dag_id"] == "elect_preferred_leaders"
        assert opened["conf"] == {"cluster": "alpha", "plan": "a" * 64}
        assert opened["trigger_run_id"].endswith("__alpha__aaaaaaaaaaaa")

    def test_none_for_a_past_day(self, monkeypatch):
        from kafka_maintenance.tasks.analysis import gated_runs

        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
        assert gated_runs.function(PLANS, {"date": "2026-11-02"}) == []


@WHEN_OPENED
def test_lingering_notifications_open_one_gated_run_a_day(monkeypatch, allowed, act, opened):
    from kafka_maintenance.tasks.drain import lingering_runs

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", allowed)
    reports = [
        {"lingering": {"alpha": "isr_change_0000000007"}, "missing": {}},
        {"lingering": {}, "missing": {"beta": "-"}},
    ]
    runs = lingering_runs.function(reports, act)
    assert [run["conf"] for run in runs] == [{"cluster": name, "act": True} for name in opened]
    today = chosen_today()["date"]
    assert [run["trigger_run_id"] for run in runs] == [
        f"lingering__{today}__{name}__isr_change_0000000007" for name in opened
    ]
    assert lingering_runs.function(reports, act) == runs
