"""End to end on real parts: a schedule fires by itself, a date is analysed, approved plans change a real cluster, and are stopped and cancelled."""

import json
from datetime import UTC, datetime
from io import BytesIO

import pyarrow.parquet as pq
import pytest

from controller_core.adapters.snapshot.manifest import MANIFEST
from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE
from kafka_maintenance.demo.brakes import MESSAGES
from kafka_maintenance.demo.throttled_move import ThrottledMove
from kafka_maintenance.operations.analysis.published import key_of, list_analyses
from kafka_maintenance.servers.process import wait_until
from tests.dags.live.spark_job import SparkJob
from tests.dags.live.stack import CLUSTER, TASK_TIMEOUT_S

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]


def test_the_schedule_of_the_snapshot_fires_by_itself(live, scheduled_snapshot):
    from kafka_maintenance.operations.snapshots.verify import verify_snapshot
    from tests.visible_snapshots import visible_snapshots

    run = f"snapshot_metadata.{scheduled_snapshot}"
    (manifest,) = [found for found in visible_snapshots(live.store, CLUSTER) if found.run_id.startswith(f"{run}.")]
    assert manifest.consistent
    assert manifest.counts["brokers"] == 3
    assert verify_snapshot(live.store, manifest) == []
    (ti,) = [
        ti
        for ti in live.operator.task_instances("snapshot_metadata", scheduled_snapshot)
        if ti["task_id"] == "take_snapshot"
    ]
    assert ti["rendered_map_index"] == f"cluster {CLUSTER}"


def test_the_day_is_analysed_and_reported(live, analysed):
    published = live.operator.xcom("nightly_analysis", analysed, "publish_report")
    prefix = f"{live.store.uri}/"
    report = live.store.get(published["report"].removeprefix(prefix)).decode()
    assert CLUSTER in report
    assert published["missing"] == []
    plans = live.operator.xcom("nightly_analysis", analysed, "plan_repairs", map_index=0)
    assert "elect_preferred_leaders" in {plan["kind"] for plan in plans}


def test_no_gated_run_was_opened_by_itself(live, analysed):
    assert live.operator.task_states("nightly_analysis", analysed)["open_gated_runs"] == "skipped"
    assert live.operator.runs("elect_preferred_leaders", run_id_pattern="nightly__%") == []


@pytest.fixture
def job(live):
    """A further run of today's analysis, and the Spark job of its first try."""
    today = datetime.now(UTC).date().isoformat()
    started = SparkJob(live.start("nightly_analysis", {"alarm_severity": "none"}, partition_key=today))
    yield started
    started.kill()


def test_workers_are_lost_their_jvm_is_frozen_and_each_finding_is_published_once(live, analysed, job):
    airflow = live.stack.airflow

    wait_until(job.has_results, what="the analysis has written results", timeout_s=240)
    job.freeze()
    for worker in airflow.workers:
        airflow.kill(worker, spared=job.processes)
    for worker in airflow.workers:
        airflow.start_worker(worker)
    live.succeed("nightly_analysis", job.run_id)
    (analyse,) = [
        ti for ti in live.operator.task_instances("nightly_analysis", job.run_id) if ti["task_id"] == "analyse"
    ]
    assert analyse["try_number"] == 2
    assert job.jvm in job.runs()  # it stood beside the second try

    def findings(run_id):
        (published,) = [each for each in list_analyses(live.store) if run_id in each.run_id]
        keys = live.store.list(key_of(live.store, published.uri).removesuffix(MANIFEST) + "findings")
        rows = [row for key in keys for row in pq.read_table(BytesIO(live.store.get(key))).to_pylist()]
        return sorted(str(row | {"snapshot_id": None}) for row in rows)  # each run reads the newest snapshot of its day

    assert findings(job.run_id) == findings(analysed) != []
    job.thaw()
    wait_until(lambda: not job.runs(), what="the job without a submitter has ended", timeout_s=60)
    assert not job.has_delivered()
    assert findings(job.run_id) == findings(analysed)


def test_the_days_election_plan_is_applied_after_a_yes_and_verified(live, analysed):
    plans = live.operator.xcom("nightly_analysis", analysed, "plan_repairs", map_index=0)
    (plan,) = [plan for plan in plans if plan["kind"] == "elect_preferred_leaders"]
    before = live.leaders()
    assert 2 not in before
    run_id = live.start("elect_preferred_leaders", {"cluster": CLUSTER, "plan": plan["digest"]})
    gate = live.approver.wait_gate("elect_preferred_leaders", run_id, timeout_s=120)
    assert plan["digest"] in gate.body
    who = f"elect_preferred_leaders on {CLUSTER}, started by operator: "
    waits = f"{who}waits for 1 approval by anybody who may answer in Airflow"
    assert live.operator.run("elect_preferred_leaders", run_id)["note"] == waits
    assert live.leaders() == before
    live.answer(gate, "Approve")
    assert live.operator.run("elect_preferred_leaders", run_id)["note"] == (
        f"{who}ended successfully: approved by approver; apply_plan success, its receipt is on the page Plan of this run"
    )
    assert live.leaders() == [1, 2, 3, 1, 2, 3]
    (apply_task,) = [
        ti for ti in live.operator.task_instances("elect_preferred_leaders", run_id) if ti["task_id"] == "apply_plan"
    ]
    assert apply_task["pool"] in {f"kafka_apply_{CLUSTER}", "kafka_apply"}
    keys = live.store.list(f"v1/receipts/cluster={CLUSTER}/{plan['digest']}/")
    events = [json.loads(live.store.get(key)) for key in keys]
    assert {event["approver"] for event in events} == {"approver"}
    assert events[-1]["event"] == "done"


def test_who_asked_for_a_deletion_does_not_approve_it_alone_and_a_rejection_holds(live):
    run_id = live.start("delete_topics", {"cluster": CLUSTER, "topics": ["kept"]})
    live.operator.wait_gate("delete_topics", run_id, timeout_s=120)

    def answers():
        found = [json.loads(live.store.get(key)) for key in live.store.list(f"v1/approvals/cluster={CLUSTER}/")]
        return [each for each in found if each["run"] == f"delete_topics.{run_id}" and "user" in each]

    def the_operator_has_said_yes():
        live.operator.answer_all("delete_topics", run_id, "Approve", comment="mine")
        return bool(answers())

    live.operator.wait_for(the_operator_has_said_yes, what="the operator has approved his own run", timeout_s=120)
    gate = live.approver.wait_gate("delete_topics", run_id, timeout_s=120)
    live.answer(gate, "Reject")
    assert {each["user"] for each in answers()} == {"operator", "approver"}
    assert live.operator.task_states("delete_topics", run_id)["apply_plan"] == "skipped"
    again = live.start("delete_topics", {"cluster": CLUSTER, "plan": answers()[0]["digest"]})
    assert live.operator.wait_run("delete_topics", again, timeout_s=TASK_TIMEOUT_S) == "failed"
    assert "'approver' rejected it" in live.operator.failures("delete_topics", again)
    notes = [live.operator.run("delete_topics", each)["note"].rpartition("operator: ")[2] for each in (run_id, again)]
    assert notes == [
        "ended successfully: rejected by approver; nothing was changed",
        "failed at approve: nobody was asked; nothing was changed",
    ]
    assert "kept" in live.topics()


def test_an_approved_deletion_removes_exactly_the_named_topic(live):
    before = live.topics()
    run_id = live.start("delete_topics", {"cluster": CLUSTER, "topics": ["retired-by-api"]})
    gate = live.approver.wait_gate("delete_topics", run_id, timeout_s=120)
    assert "retired-by-api" in live.topics()
    live.answer(gate, "Approve")
    assert live.topics() == before - {"retired-by-api"}


def test_the_tasks_ran_on_workers_that_share_no_folder(live):
    airflow = live.stack.airflow
    for worker in airflow.workers:
        log = (airflow.workspace.logs / f"airflow-{worker}.log").read_text()
        assert "Workload finished" in log, worker
        assert (airflow.workspace.folder / f"airflow-{worker}" / "kafka_maintenance_scratch").is_dir()


@pytest.fixture
def move(live):
    """A plan that moves two partitions in two waves under a throttle, of a cluster whose brokers may be asked."""
    kafka = live.stack.kafka
    live.stack.add_cluster("asked", kafka.zookeeper_connect, bootstrap_servers=kafka.bootstrap_servers)
    yield ThrottledMove(live.stack, live.store, "asked", MESSAGES, comment="end to end")
    # the other tests have one cluster
    live.stack.airflow.api("admin").set_variable(CLUSTERS_VARIABLE, json.dumps([CLUSTER]))


def test_a_move_is_stopped_in_mid_wave_goes_on_without_its_triggerer_and_its_second_wave_is_cancelled(live, move):
    airflow = live.stack.airflow

    assert "Throttle: each broker sends and receives at most 50,000 bytes per second" in move.ask().body
    move.wait(lambda: ("requested", 0) in move.events(), "the first wave is asked for")
    move.stop("the disks are busy")
    assert move.wait_end() == "failed"
    assert move.events()[-1] == ("stopped", 0)
    assert b'"50000"' in move.broker_config()

    move.ask()
    move.wait(lambda: move.state() == "deferred", "the second run has left its worker")
    airflow.kill("triggerer")
    airflow.start_component("triggerer")
    move.wait(lambda: ("requested", 1) in move.events(), "the second wave is asked for")
    assert move.events().count(("requested", 0)) == 1

    move.cancel("enough")
    assert move.wait_end() == "failed"
    assert ("over", 1) in move.events()
    assert move.replicas() == {0: {1, 3}, 1: {1, 2}}
    assert b"throttled" not in move.broker_config()
    roads = [each.detail.get("road") for each in move.recorded() if each.event == "requested"]
    assert roads == ["admin_api", "admin_api"]
    assert "copied" in move.log()
    assert move.lost() == 0
