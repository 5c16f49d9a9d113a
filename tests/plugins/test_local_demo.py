"""The demo counts what happened and says what did not; brokers are asked for their own view."""

import pytest

from kafka_maintenance.local import KafkaCluster, demo, sample_history
from kafka_maintenance.local.broker_metadata import broker_metadata
from kafka_maintenance.local.demo_cluster import TroubledCluster
from kafka_maintenance.local.ports import LOOPBACK, free_port
from kafka_maintenance.local.process import wait_until
from kafka_maintenance.local.stack import LocalStack, StackSettings
from kafka_maintenance.local.traffic import create_topic


def test_the_closing_line_of_a_whole_demo():
    progress = demo.Progress()
    progress.counts.update(demo.EXPECTED)
    assert progress.closing_line() == (
        "demo: 2 snapshots, 1 report, 4 plans approved, 4 applied, 4 verified, 7 nights backfilled"
    )
    assert progress.missing() == []


def test_a_part_that_did_not_happen_is_named(capsys):
    progress = demo.Progress()
    progress.counts.update({**demo.EXPECTED, "verified": 3})
    progress.fault("reassign_partitions not verified")
    assert progress.missing() == ["verified: expected 4, found 3"]
    assert "NOT DONE: reassign_partitions not verified" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "protocol"),
    [
        pytest.param("3.9", "2.6", id="a new broker speaks the protocol that writes notifications"),
        pytest.param("1.1", None, id="an old broker speaks its own"),
    ],
)
def test_the_demos_protocol_version(version, protocol):
    settings = demo._settings({"KAFKA_VERSION": version, "AIRFLOW_PORT": "8080"})
    assert (settings.inter_broker_protocol_version, settings.airflow_port) == (protocol, 8080)


def test_the_sample_history_has_seven_nights_of_one_cluster():
    manifests = sorted(sample_history.RECORDED.rglob("manifest.json"))
    nights = [path.parent.parent.name for path in manifests]
    assert nights == [f"date={night}" for night in sample_history.NIGHTS]
    assert all(f"cluster={sample_history.CLUSTER}" in path.parts for path in manifests)


def test_a_broker_that_is_not_there_is_no_answer():
    with pytest.raises(OSError, match="refused"):
        broker_metadata(LOOPBACK, free_port())


@pytest.mark.kafka
def test_a_broker_tells_its_own_view():
    with KafkaCluster("1.1", brokers=2, mode="shared_jvm") as cluster:
        (partition,) = create_topic(cluster, "orders", {0: (2, 1)})
        wait_until(
            lambda: partition in broker_metadata(LOOPBACK, cluster[1].port), what="broker 1 knows it", timeout_s=30
        )
        view = broker_metadata(LOOPBACK, cluster[1].port)[partition]
        assert (view.leader, view.replicas, set(view.isr)) == (2, (2, 1), {1, 2})


@pytest.mark.kafka
def test_the_demos_cluster_is_troubled_and_can_be_relieved():
    settings = StackSettings(
        airflow=False,
        inter_broker_protocol_version=demo.INTER_BROKER_PROTOCOL_VERSION,
        broker_config=demo.BROKER_CONFIG,
        zookeeper_config=demo.ZOOKEEPER_CONFIG,
    )
    said = []
    with LocalStack(settings, say=said.append) as stack:
        cluster = TroubledCluster(stack.kafka, said.append)
        cluster.make_topics()
        cluster.lose_and_regain_a_broker()
        cluster.lose_a_broker_and_delete_a_topic()
        cluster.hang_the_controller()
        with stack.kafka.session() as zookeeper:
            assert zookeeper.children("/isr_change_notification")
            assert zookeeper.children("/admin/delete_topics") == ["clicks-2023"]
            zookeeper.delete("/controller", -1)
            cluster._until(lambda: not zookeeper.children("/isr_change_notification"), "drained by the next controller")
        cluster.wake_the_former_controller()
        cluster.bring_the_dead_broker_back()
        assert cluster.await_right_metadata() == 3
        assert cluster.lost_messages() == {}
        assert cluster.stop_traffic() > 0


class FinishedBackfill:
    """The API after a backfill in which the last night failed."""

    def runs(self, dag_id, **query):
        states = dict.fromkeys(sample_history.NIGHTS, "success") | {sample_history.NIGHTS[-1]: "failed"}
        return [
            {"partition_key": night.isoformat(), "dag_run_id": f"backfill-{night}", "state": state}
            for night, state in states.items()
        ]

    def backfills(self, dag_id):
        return [{"completed_at": "2026-11-21T03:00:00Z"}]

    def wait_for(self, condition, *, what, timeout_s):
        assert condition(), what

    def wait_run(self, dag_id, run_id, *, timeout_s):
        return next(run["state"] for run in self.runs(dag_id) if run["dag_run_id"] == run_id)

    def task_states(self, dag_id, run_id):
        return {"publish_report": "success"}

    def xcom(self, dag_id, run_id, task_id):
        return {"report": f"s3://bucket/v1/analysis/{run_id}/report.md"}

    def failures(self, dag_id, run_id):
        return "--- nightly_analysis.analyse\nout of memory"


def test_nights_are_counted_by_run_and_a_failed_one_is_named(capsys):
    finished = demo.Demo.__new__(demo.Demo)
    finished.progress, finished.operator = demo.Progress(), FinishedBackfill()
    finished._finish_backfill()
    assert finished.progress.counts["nights"] == 6
    assert finished.progress.faults == [
        "run backfill-2026-10-11 of nightly_analysis is failed\n--- nightly_analysis.analyse\nout of memory",
        "night 2026-10-11 was not backfilled",
    ]
    assert "the analysis of 2026-10-05 is success" in capsys.readouterr().out
