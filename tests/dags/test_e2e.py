"""End to end on real parts: a schedule fires by itself, a date is analysed, approved plans change a real cluster, and are stopped and cancelled."""

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from kafka import KafkaProducer

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import Target
from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE
from kafka_maintenance.demo.traffic import create_topic, message_counts
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.plans.make import plan_reassignment
from kafka_maintenance.operations.record.receipts import read_events
from tests.dags.live import CLUSTER, TASK_TIMEOUT_S

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]


def test_the_schedule_of_the_snapshot_fires_by_itself(live, scheduled_snapshot):
    from kafka_maintenance.operations.snapshots.catalog import list_snapshots
    from kafka_maintenance.operations.snapshots.verify import verify_snapshot

    run = f"snapshot_metadata.{scheduled_snapshot}"
    (manifest,) = [found for found in list_snapshots(live.store, CLUSTER) if found.run_id == run]
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


def test_workers_that_are_lost_delay_the_analysis_and_each_finding_is_published_once(live, analysed):
    from kafka_maintenance.operations.analysis.published import list_analyses

    airflow, today = live.stack.airflow, datetime.now(UTC).date().isoformat()
    run_id = live.start("nightly_analysis", {"alarm_severity": "none"}, partition_key=today)

    def state():
        return live.operator.task_states("nightly_analysis", run_id).get("analyse")

    live.operator.wait_for(lambda: state() == "running", what="the analysis runs", timeout_s=240)
    for worker in airflow.workers:
        airflow.kill(worker)
    for worker in airflow.workers:
        airflow.start_worker(worker)
    live.succeed("nightly_analysis", run_id)
    (analyse,) = [ti for ti in live.operator.task_instances("nightly_analysis", run_id) if ti["task_id"] == "analyse"]
    assert analyse["try_number"] == 2
    found = {each.run_id: each.summary["clusters"][CLUSTER]["findings"] for each in list_analyses(live.store)}
    first, second = (found[next(name for name in found if run in name)] for run in (analysed, run_id))
    assert second == first != {}


def test_the_days_election_plan_is_applied_after_a_yes_and_verified(live, analysed):
    plans = live.operator.xcom("nightly_analysis", analysed, "plan_repairs", map_index=0)
    (plan,) = [plan for plan in plans if plan["kind"] == "elect_preferred_leaders"]
    before = live.leaders()
    assert 2 not in before
    run_id = live.start("elect_preferred_leaders", {"cluster": CLUSTER, "plan": plan["digest"]})
    gate = live.approver.wait_gate("elect_preferred_leaders", run_id, timeout_s=120)
    assert plan["digest"] in gate.body
    assert live.leaders() == before
    live.answer(gate, "Approve")
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


HEAVY = {0: 300, 1: 3_000}
"""Records of 10 kB of each partition that moves: under the throttle of its plan a minute, which is longer than a task waits, and ten."""


class Move:
    """The approved runs of a plan that moves partitions: each is the same plan, and the newest is looked at."""

    def __init__(self, live, plan):
        self.live, self.plan, self.run_id = live, plan, None

    def approve(self):
        self.run_id = self.live.start("reassign_partitions", {"cluster": "asked", "plan": self.plan.digest})
        gate = self.live.approver.wait_gate("reassign_partitions", self.run_id, timeout_s=240)
        assert "Throttle: each broker sends and receives at most 50,000 bytes per second" in gate.body
        self.live.approver.answer(gate, "Approve", comment="end to end")

    def events(self):
        return [(str(each.event), each.step) for each in self.recorded()]

    def recorded(self):
        return read_events(self.live.store, "asked", self.plan.digest)

    def state(self):
        return self.live.operator.task_states("reassign_partitions", self.run_id).get("apply_plan")

    def until(self, done, what):
        """Waits until `done()`, and answers each gate that opens once more; a run that fails before fails the test."""

        def happened():
            self.live.approver.answer_all("reassign_partitions", self.run_id, "Approve", comment="asked once more")
            if done():
                return True
            if self.live.operator.run("reassign_partitions", self.run_id)["state"] == "failed":
                pytest.fail(f"not seen that {what}\n{self.live.operator.failures('reassign_partitions', self.run_id)}")
            return False

        self.live.operator.wait_for(happened, what=what, timeout_s=TASK_TIMEOUT_S)

    def fails(self):
        state = self.live.operator.wait_run("reassign_partitions", self.run_id, timeout_s=TASK_TIMEOUT_S)
        assert state == "failed"


@pytest.fixture
def move(live):
    """A plan that moves two partitions in two waves under a throttle, of a cluster whose brokers may be asked."""
    kafka = live.stack.kafka
    extra = {"kafka_version": kafka.version, "bootstrap_servers": kafka.bootstrap_servers}
    admin = live.stack.airflow.api("admin")
    admin.set_connection("asked", "generic", host=kafka.zookeeper_connect, extra=extra)
    admin.set_variable(CLUSTERS_VARIABLE, json.dumps([CLUSTER, "asked"]))  # without it `apply_plan` refuses the name
    first, second = create_topic(kafka, "heavy", {0: (1, 2), 1: (2, 1)})
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)) as producer:
        for number, count in HEAVY.items():
            for _ in range(count):
                producer.send("heavy", b"x" * 10_000, partition=number)
    waves = [[Target(first, (BrokerId(1), BrokerId(3)))], [Target(second, (BrokerId(2), BrokerId(3)))]]
    plan = plan_reassignment(
        live.store,
        "asked",
        waves=waves,
        zookeeper=ClusterAddress(kafka.zookeeper_connect),
        throttle_bytes_per_s=50_000,
    )
    for dag_id in ("stop_execution", "cancel_execution"):
        live.operator.pause(dag_id, paused=False)
    yield Move(live, plan)
    admin.set_variable(CLUSTERS_VARIABLE, json.dumps([CLUSTER]))  # the other tests have one cluster


def test_a_move_is_stopped_in_mid_wave_goes_on_without_its_triggerer_and_its_second_wave_is_cancelled(live, move):
    airflow, kafka = live.stack.airflow, live.stack.kafka

    move.approve()
    move.until(lambda: ("requested", 0) in move.events(), "the first wave is asked for")
    live.succeed("stop_execution", live.start("stop_execution", {"cluster": "asked", "reason": "the disks are busy"}))
    move.fails()
    assert move.events()[-1] == ("stopped", 0)
    with kafka.session() as zookeeper:
        assert b'"50000"' in zookeeper.get("/config/brokers/3")[0]

    move.approve()
    move.until(lambda: move.state() == "deferred", "the second run has left its worker")
    airflow.kill("triggerer")
    airflow.start_component("triggerer")
    move.until(lambda: ("requested", 1) in move.events(), "the second wave is asked for")
    assert [kind for kind, step in move.events() if step == 0].count("requested") == 1

    shown = live.start("cancel_execution", {"cluster": "asked", "reason": "enough"})
    live.succeed("cancel_execution", shown)
    approve = live.operator.xcom("cancel_execution", shown, "cancel_moves")["approve"]
    asked = {"cluster": "asked", "reason": "enough", "approve": approve}
    live.succeed("cancel_execution", live.start("cancel_execution", asked))
    move.fails()
    assert ("over", 1) in move.events()
    with kafka.session() as zookeeper:
        seen = observe(zookeeper, topics=["heavy"], partitions=[TopicPartition("heavy", number) for number in range(2)])
        lists = {each.partition: set(found.replicas) for each, found in seen.assignments.items()}
        assert lists == {0: {1, 3}, 1: {1, 2}}
        assert b"throttled" not in zookeeper.get("/config/brokers/3")[0]
    roads = [each.detail.get("road") for each in move.recorded() if each.event == "requested"]
    assert roads == ["admin_api", "admin_api"]
    assert "copied" in live.operator.task_log("reassign_partitions", move.run_id, "apply_plan")
    assert message_counts(kafka, "heavy") == HEAVY
