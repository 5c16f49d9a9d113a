"""The demo counts what happened and says what did not; brokers are asked for their own view."""

import errno
import io
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from controller_core.model.dialect import dialect_for
from kafka_maintenance.demo import parts, sample_history
from kafka_maintenance.demo import run as demo
from kafka_maintenance.demo.broker_metadata import broker_metadata
from kafka_maintenance.demo.cluster import (
    BROKER_CONFIG,
    INTER_BROKER_PROTOCOL_VERSION,
    ZOOKEEPER_CONFIG,
    TroubledCluster,
)
from kafka_maintenance.demo.progress import Progress
from kafka_maintenance.demo.stack import LocalStack, StackSettings
from kafka_maintenance.demo.traffic import create_topic
from kafka_maintenance.servers import KafkaCluster
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.kafka_jars import VERSIONS
from kafka_maintenance.servers.ports import LOOPBACK, free_port
from kafka_maintenance.servers.process import wait_until


def test_the_closing_line_of_a_whole_demo():
    progress = Progress()
    progress.counts.update(progress.expected)
    assert progress.closing_line() == (
        "demo: 2 snapshots, 1 report, 5 plans approved, 5 applied, 5 verified, "
        "1 throttled move stopped in mid-wave, resumed, its second wave cancelled, 7 dates backfilled"
    )
    assert progress.missing() == []


@pytest.mark.parametrize(
    ("version", "drains", "ending"),
    [
        pytest.param(
            "2.4",
            True,
            "5 plans approved, 5 applied, 5 verified, 1 throttled move stopped in mid-wave, resumed, its second wave cancelled, "
            "7 dates backfilled",
            id="all",
        ),
        pytest.param(
            "1.1",
            True,
            "5 plans approved, 5 applied, 5 verified, 1 throttled move stopped in mid-wave, resumed, finished, 7 dates backfilled; "
            "Kafka 1.1 cannot cancel a reassignment",
            id="no cancel",
        ),
        pytest.param(
            "1.0",
            False,
            "4 plans approved, 4 applied, 4 verified, 1 throttled move stopped in mid-wave, resumed, finished, 7 dates backfilled; "
            "Kafka 1.0 cannot drain by re-election; Kafka 1.0 cannot cancel a reassignment",
            id="no drain by re-election",
        ),
        pytest.param(
            "0.11",
            False,
            "3 plans approved, 3 applied, 3 verified, 1 throttled move stopped in mid-wave, resumed, finished, 7 dates backfilled; "
            "Kafka 0.11 cannot drain by re-election; no leaders are moved on Kafka 0.11; Kafka 0.11 cannot cancel a reassignment",
            id="no leaders moved",
        ),
    ],
)
def test_the_closing_line_is_true_for_the_version(monkeypatch, version, drains, ending):
    monkeypatch.setattr(parts, "open_store", lambda *_, **__: None)
    monkeypatch.setattr(parts, "_store_login", lambda _: {})
    stack = SimpleNamespace(
        settings=StackSettings(kafka_version=version),
        kafka=None,
        store_uri="",
        airflow=SimpleNamespace(api=lambda _: None),
    )
    progress = Progress()
    assert parts.Demo(stack, progress, approve=True).drains == drains
    progress.counts.update(progress.expected)
    assert progress.closing_line().endswith(ending)


class RejectedGate:
    """The API after a person said Reject: what follows the gate is skipped, and there is no XCom."""

    def task_states(self, dag_id, run_id):
        return {"approve": "success", "apply_plan": "skipped", "verify": "skipped"}

    def last_answer(self, dag_id, run_id):
        return {"chosen_options": ["Reject"], "responded_by_user": {"id": "7", "name": "ann"}}


def test_a_rejected_plan_is_counted_as_rejected_and_the_demo_is_whole(capsys):
    rejecting = parts.Demo.__new__(parts.Demo)
    rejecting.progress, rejecting.operator = Progress(), RejectedGate()
    assert not rejecting._count_gated(parts.GatedRun("delete_topics", "r"))
    assert "delete_topics: rejected by ann; nothing was applied" in capsys.readouterr().out
    rejecting.progress.counts.update(rejecting.progress.expected)
    assert "4 plans approved, 1 rejected, 4 applied, 4 verified" in rejecting.progress.closing_line()
    assert (rejecting.progress.missing(), rejecting.progress.faults) == ([], [])


def test_a_move_that_is_rejected_or_cut_short_is_told_as_such():
    progress = Progress()
    progress.counts.update(progress.expected | {"moves_resumed": 0, "waves_cancelled": 0})
    assert ", 1 throttled move stopped in mid-wave, 7 dates" in progress.closing_line()
    assert progress.missing() == ["moves_resumed: expected 1, found 0", "waves_cancelled: expected 1, found 0"]
    progress.counts.update({"moves_rejected": 1, "moves_stopped": -1})
    assert ", 1 throttled move rejected, 7 dates" in progress.closing_line()
    assert progress.missing() == []


def test_a_part_that_did_not_happen_is_named(capsys):
    progress = Progress()
    progress.counts.update({**progress.expected, "verified": 3})
    progress.fault("reassign_partitions not verified")
    assert progress.missing() == ["verified: expected 5, found 3"]
    assert "NOT DONE: reassign_partitions not verified" in capsys.readouterr().out


@pytest.mark.parametrize("version", VERSIONS)
def test_the_demos_brokers_write_notifications_in_every_version(version):
    settings = demo._settings({"KAFKA_VERSION": version, "AIRFLOW_PORT": "8080"})
    assert settings.airflow_port == 8080
    assert not dialect_for(version, settings.inter_broker_protocol_version).isr_through_controller


def test_the_demos_old_brokers_speak_their_own_protocol():
    assert demo.protocol_of("2.4") is None


def test_the_sample_history_has_seven_days_of_one_cluster():
    manifests = sorted(sample_history.RECORDED.rglob("manifest.json"))
    days = [path.parent.parent.name for path in manifests]
    assert days == [f"date={day}" for day in sample_history.DAYS]
    assert all(f"cluster={sample_history.CLUSTER}" in path.parts for path in manifests)


class StartedStack:
    """Stands for a started stack, whose logs cannot be copied; knows whether it was stopped."""

    def __init__(self, settings, *, say):
        users = {name: SimpleNamespace(password="geheim") for name in ("operator", "approver", "viewer")}
        self.airflow = SimpleNamespace(url="http://airflow", users=users)
        self.workspace = SimpleNamespace(logs="/nowhere")
        self.stopped = False

    def start(self):
        pass

    def stop(self):
        self.stopped = True


class ClosedTerminal(io.StringIO):
    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def demo_stack(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "LocalStack", StartedStack)
    monkeypatch.setattr(demo, "LOGS", tmp_path / "logs")
    return demo._stack(StackSettings(), Progress())


def test_a_stack_is_stopped_though_its_logs_cannot_be_kept(demo_stack, capsys):
    with pytest.raises(LocalStackError, match="a fault"), demo_stack as stack:
        raise LocalStackError("a fault")
    assert stack.stopped
    assert "logs not kept in" in capsys.readouterr().out


def test_a_stack_is_stopped_though_its_terminal_is_closed(demo_stack, monkeypatch):
    with pytest.raises(OSError, match="Input/output error"), demo_stack as stack:
        monkeypatch.setattr(sys, "stdout", ClosedTerminal())
        raise KeyboardInterrupt
    assert stack.stopped


@pytest.mark.parametrize(
    ("number", "before", "status"),
    [
        pytest.param("SIGTERM", "SIG_DFL", 130, id="told to end"),
        pytest.param("SIGHUP", "SIG_DFL", 130, id="its terminal was closed, which is told twice"),
        pytest.param("SIGHUP", "SIG_IGN", 1, id="under nohup it goes on"),
    ],
)
def test_the_demo_stops_in_an_orderly_way_when_it_is(number, before, status):
    script = f"""
        import os, signal, sys
        from kafka_maintenance.demo import run as demo
        from kafka_maintenance.servers.errors import LocalStackError
        def prepare(version):
            try:
                os.kill(os.getpid(), signal.{number})
            finally:
                os.kill(os.getpid(), signal.{number})
                print("all is stopped")
            raise LocalStackError("the demo goes on")
        demo.prepare = prepare
        signal.signal(signal.{number}, signal.{before})
        sys.exit(demo.main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=False, capture_output=True, timeout=300
    )
    assert (done.returncode, b"all is stopped" in done.stdout) == (status, True), done.stderr.decode()


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
        inter_broker_protocol_version=INTER_BROKER_PROTOCOL_VERSION,
        broker_config=BROKER_CONFIG,
        zookeeper_config=ZOOKEEPER_CONFIG,
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
    """The API after a backfill in which the last date failed."""

    def runs(self, dag_id, **query):
        states = dict.fromkeys(sample_history.DAYS, "success") | {sample_history.DAYS[-1]: "failed"}
        return [
            {"partition_key": day.isoformat(), "dag_run_id": f"backfill-{day}", "state": state}
            for day, state in states.items()
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


def test_days_are_counted_by_run_and_a_failed_one_is_named(capsys):
    finished = parts.Demo.__new__(parts.Demo)
    finished.progress, finished.operator = Progress(), FinishedBackfill()
    finished._finish_backfill()
    assert finished.progress.counts["dates"] == 6
    assert finished.progress.faults == [
        "run backfill-2026-10-11 of nightly_analysis is failed\n--- nightly_analysis.analyse\nout of memory",
        "date 2026-10-11 was not backfilled",
    ]
    assert "the analysis of 2026-10-05 is success" in capsys.readouterr().out
