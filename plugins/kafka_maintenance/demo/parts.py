"""The parts of the demo: one daily run, with its gates, brakes and backfill, on a started stack."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from controller_core.adapters.object_store.open import ObjectStore, open_store
from controller_core.model.dialect import dialect_for, parse_version
from controller_core.model.partitions import BrokerId, TopicPartition
from kafka_maintenance.connections.airflow_api import AIRFLOW_CONNECTION
from kafka_maintenance.demo import sample_history
from kafka_maintenance.demo.airflow_api import PERSON_TIMEOUT_S, RUN_ENDED, AirflowApi
from kafka_maintenance.demo.brakes import MESSAGES, MESSAGES_WITHOUT_CANCEL, show_brakes
from kafka_maintenance.demo.cluster import RETIRED_TOPIC, TroubledCluster
from kafka_maintenance.demo.progress import Progress
from kafka_maintenance.demo.stack import LocalStack
from kafka_maintenance.demo.throttled_move import RejectedMoveError, ThrottledMove
from kafka_maintenance.demo.traffic import Writer, create_topic, message_counts, partition_states
from kafka_maintenance.operations.snapshots.catalog import read_manifest, read_table
from kafka_maintenance.servers.errors import LocalStackError

COMMENT = "make demo APPROVE=yes"
RUN_TIMEOUT_S = 900.0
GATE_TIMEOUT_S = 600.0
BACKFILL_TIMEOUT_S = 1800.0
APPLY_TASK, ACT_TASK, VERIFY_TASK = "apply_plan", "act_as_controller", "verify"
OLDEST_COMMANDED = (1, 0)
"""Version of brokers that an active controller of ours commands."""
LED_TOPIC = "ledger"
LED = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
DRAINED = BrokerId(1)


@dataclass(frozen=True, slots=True)
class GatedRun:
    """A run that changes the cluster once a person has approved its plan."""

    dag_id: str
    run_id: str


class Demo:
    """One demo on a started stack."""

    def __init__(self, stack: LocalStack, progress: Progress, *, approve: bool) -> None:
        version = stack.settings.kafka_version
        self.drains = dialect_for(version).failover_deletes_notifications
        if not self.drains:
            progress.plans -= 1
            progress.remark = f"; Kafka {version} cannot drain by re-election"
        self.acts = parse_version(version) >= OLDEST_COMMANDED
        if not self.acts:
            progress.plans -= 1
            progress.remark += f"; no leaders are moved on Kafka {version}"
        progress.cancels = dialect_for(version).adding_and_removing_replicas
        if not progress.cancels:
            progress.remark += f"; Kafka {version} cannot cancel a reassignment"
        self.stack = stack
        self.progress = progress
        self.approve = approve
        self.cluster = TroubledCluster(stack.kafka, progress.say)
        self.operator: AirflowApi = stack.airflow.api("operator")
        self.approver: AirflowApi = stack.airflow.api("approver")
        self.store: ObjectStore = open_store(stack.store_uri, **_store_login(stack))

    def run(self) -> None:
        """All parts, in order; faults are in `progress`."""
        part = self.progress.part
        self._let_airflow_be_asked()
        with part("a cluster that needs care"):
            self._trouble()
        with part("snapshot_metadata"):
            first = self._snapshot()
        with part("nightly_analysis"):
            self._analyse(first)
        with part("backfill of seven dates, started"):
            self._start_backfill()
        with part("drain_isr_notifications"):
            self._drain()
        with part("delete_topics, reassign_partitions, elect_preferred_leaders"):
            self._repair()
        with part("a move under a throttle: stopped, resumed, cancelled"):
            self._brake()
        if self.acts:
            with part("move_leaders: a broker is drained of leadership"):
                self._drain_leadership()
        with part("second snapshot"):
            self._compare(first, self._snapshot())
        with part("backfill of seven dates, awaited"):
            self._finish_backfill()

    def _let_airflow_be_asked(self) -> None:
        """Before its first write each `apply_plan` compares our record of the answer with Airflow's own, read as a viewer."""
        airflow = self.stack.airflow
        airflow.api("admin").set_connection(
            AIRFLOW_CONNECTION,
            "http",
            host=airflow.url,
            login="viewer",
            password=airflow.users["viewer"].password,
            description="Airflow's own record of who answered a gate",
        )

    def _trouble(self) -> None:
        self.cluster.make_topics()
        self.cluster.lose_and_regain_a_broker()
        self.cluster.add_an_empty_broker()
        self.cluster.lose_a_broker_and_delete_a_topic()
        self.cluster.hang_the_controller()

    def _snapshot(self) -> str | None:
        """Run the snapshot DAG; the manifest of the snapshot."""
        self.operator.pause("snapshot_metadata", paused=False)
        run_id = self.operator.trigger("snapshot_metadata", {"clusters": [self.stack.settings.cluster]})
        return self._snapshot_of("snapshot_metadata", run_id)

    def _snapshot_of(self, dag_id: str, run_id: str) -> str | None:
        if not self._succeeded(dag_id, run_id):
            return None
        told = self.operator.xcom(dag_id, run_id, "take_snapshot", map_index=0)
        self.progress.counts["snapshots"] += 1
        self.progress.say(f"run {run_id}: {told['manifest']}")
        return str(told["manifest"])

    def _analyse(self, manifest: str | None) -> None:
        """The current analysis and its report."""
        if manifest is None:
            self.progress.fault("no analysis without a snapshot")
            return
        day = read_manifest(self.store, manifest).date
        self.operator.pause("nightly_analysis", paused=False)
        run_id = self.operator.trigger("nightly_analysis", {"alarm_severity": "none"}, partition_key=day)
        if not self._succeeded("nightly_analysis", run_id):
            return
        told = self.operator.xcom("nightly_analysis", run_id, "publish_report")
        self.progress.counts["report"] += 1
        print(self._text(told["report"]))
        self.progress.say(f"report {told['report']}")
        self.progress.say(f"the same in the UI: {self.stack.airflow.url}/dags/nightly_analysis/runs/{run_id}")

    def _drain(self) -> None:
        """A forced re-election relieves the hanging controller; then the machines' people do their part.

        Where there is none, because the version cannot or a person rejected it, only they can help: they go first.
        """
        if self.drains and self._gated(self._trigger("drain_isr_notifications", act=True)):
            self.progress.say(
                f"{self.cluster.await_right_metadata()} brokers tell their clients the leaders of ZooKeeper"
            )
        self.cluster.wake_the_former_controller()
        self.cluster.bring_the_dead_broker_back()
        self.progress.say(f"{self.cluster.await_right_metadata()} brokers tell their clients the leaders of ZooKeeper")

    def _repair(self) -> None:
        self._gated(self._trigger("delete_topics", topics=[RETIRED_TOPIC]))
        self._gated(self._trigger("reassign_partitions"))  # a plan that moves a deleted topic would be refused
        self._gated(self._trigger("elect_preferred_leaders"))  # moves change who is preferred
        lost = self.cluster.lost_messages()
        if lost:
            self.progress.fault(f"acknowledged messages were lost: {dict(sorted(lost.items()))}")
        else:
            self.progress.say(f"all {self.cluster.stop_traffic()} acknowledged messages are there")

    def _brake(self) -> None:
        """A move that takes minutes; from here on Airflow may ask the brokers, too."""
        cluster, kafka = self.stack.settings.cluster, self.stack.kafka
        self.stack.add_cluster(
            cluster,
            kafka.zookeeper_connect,
            description="The cluster of the local stack, whose brokers may be asked",
            bootstrap_servers=kafka.bootstrap_servers,
        )
        cancels = self.progress.cancels
        try:
            move = ThrottledMove(
                self.stack,
                self.store,
                cluster,
                MESSAGES if cancels else MESSAGES_WITHOUT_CANCEL,
                comment=COMMENT if self.approve else None,
                tell=self.progress.say,
            )
            show_brakes(move, self.progress, cancels=cancels)
        except RejectedMoveError as rejected:
            self.progress.counts["moves_rejected"] += 1
            self.progress.say(str(rejected))
        except LocalStackError as error:
            self.progress.fault(str(error))

    def _drain_leadership(self) -> None:
        """A few seconds as active controller, under a producer that notes its longest pause; the connection allows them from here on."""
        kafka = self.stack.kafka
        self.stack.add_cluster(
            self.stack.settings.cluster,
            kafka.zookeeper_connect,
            description="The cluster of the local stack, where leaders may be moved",
            bootstrap_servers=kafka.bootstrap_servers,
            may_act_as_controller=True,
        )
        partitions = create_topic(kafka, LED_TOPIC, LED)
        with Writer(kafka, partitions) as writer:
            writer.await_flowing()
            unfenced = not dialect_for(self.stack.settings.kafka_version).epoch_fencing
            run = self._trigger("move_leaders", drain_brokers=[DRAINED], confirm_unfenced_controller=unfenced)
            if not self._gated(run, ACT_TASK):
                return
            writer.await_flowing()
        led = self._led_by(DRAINED, partitions)
        counts = message_counts(kafka, LED_TOPIC)
        lost = sum(max(0, written - counts[each.partition]) for each, written in writer.acknowledged.items())
        if led or lost:
            self.progress.fault(f"broker {DRAINED} leads {led} of {LED_TOPIC}, {lost} acknowledged messages were lost")
        else:
            self.progress.say(
                f"broker {DRAINED} leads none of {LED_TOPIC} any more; the longest pause of its producers was {writer.longest_gap_s:.1f} s, "
                f"all {writer.acknowledged.total()} acknowledged messages are there"
            )

    def _led_by(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> int:
        with self.stack.kafka.session() as zookeeper:
            states = partition_states(zookeeper, partitions)
        return sum(state is None or state.leader == broker for state in states.values())

    def _start_backfill(self) -> None:
        """The recorded week goes into the store, and Airflow begins to analyse each date from its own snapshot.

        It goes on beside the repairs, which mostly wait.
        """
        copied = sample_history.copy_into(self.store)
        self.stack.add_cluster(
            sample_history.CLUSTER,
            "127.0.0.1:1",
            archived=True,
            description="Sample: a recorded week of a cluster that is gone",
        )
        first, last = sample_history.DAYS[0], sample_history.DAYS[-1]
        self.progress.say(f"sample history {sample_history.CLUSTER} ({copied} objects): {first} to {last}")
        self.stack.airflow.cli(
            *("backfill", "create", "--dag-id", "nightly_analysis", "--max-active-runs", "2"),
            *("--from-date", f"{first}T00:00:00Z", "--to-date", f"{last}T23:59:59Z"),
            *(
                "--dag-run-conf",
                '{"fail_if_incomplete": false, "alarm_severity": "none"}',
            ),  # the live cluster has no snapshot of those dates
        )

    def _finish_backfill(self) -> None:
        """Wait until every date is analysed; the report of the last one shows the trend."""
        told: set[str] = set()

        def complete() -> bool:
            ended = {
                f"{run['partition_key']} is {run['state']}"
                for run in self.operator.runs("nightly_analysis", run_type="backfill")
                if run["state"] in RUN_ENDED
            }
            for text in sorted(ended - told):
                self.progress.say(f"the analysis of {text}")
            told.update(ended)
            return all(found["completed_at"] for found in self.operator.backfills("nightly_analysis"))

        self.operator.wait_for(complete, what="the backfill is complete", timeout_s=BACKFILL_TIMEOUT_S)
        reports = {day: self._backfilled(day) for day in sample_history.DAYS}
        self.progress.counts["dates"] += sum(report is not None for report in reports.values())
        last = sample_history.DAYS[-1]
        newest = reports[last]
        if newest is not None:
            print(self._text(newest))
            self.progress.say(f"report of {last}: {newest}")

    def _backfilled(self, day: date) -> str | None:
        """The report of one past date, by the backfill's run; None when there is none."""
        for run in self.operator.runs("nightly_analysis", run_type="backfill"):
            if run["partition_key"] == day.isoformat() and self._succeeded("nightly_analysis", run["dag_run_id"]):
                states = self.operator.task_states("nightly_analysis", run["dag_run_id"])
                if states.get("publish_report") == "success":
                    return str(self.operator.xcom("nightly_analysis", run["dag_run_id"], "publish_report")["report"])
        self.progress.fault(f"date {day} was not backfilled")
        return None

    def _trigger(self, dag_id: str, **conf: Any) -> GatedRun:
        self.operator.pause(dag_id, paused=False)
        return GatedRun(dag_id, self.operator.trigger(dag_id, {"cluster": self.stack.settings.cluster, **conf}))

    def _gated(self, run: GatedRun, apply_task: str = APPLY_TASK) -> bool:
        """Wait until the run is at its gate, and until it is answered; whether its plan was carried out."""
        try:
            gate = self.operator.wait_gate(run.dag_id, run.run_id, timeout_s=GATE_TIMEOUT_S)
        except LocalStackError as error:
            self.progress.fault(str(error))
            return False
        self.progress.say(f"{gate.subject}\n          waits at {self.stack.airflow.url}{gate.page}")
        if self.approve:
            self.approver.wait_run_answering(
                run.dag_id, run.run_id, "Approve", timeout_s=RUN_TIMEOUT_S, comment=COMMENT
            )
        else:
            self.progress.say(f"approve it as {self.approver.user}: {self.stack.airflow.url}{gate.page}")
            self.operator.wait_run(run.dag_id, run.run_id, timeout_s=PERSON_TIMEOUT_S)
        return self._count_gated(run, apply_task)

    def _count_gated(self, run: GatedRun, apply_task: str = APPLY_TASK) -> bool:
        states = self.operator.task_states(run.dag_id, run.run_id)
        answer = self.operator.last_answer(run.dag_id, run.run_id)
        person = (answer.get("responded_by_user") or {}).get("name")
        if answer.get("chosen_options") == ["Reject"]:
            self.progress.counts["rejected"] += 1
            self.progress.say(f"{run.dag_id}: rejected by {person or 'nobody, in time'}; nothing was applied")
            return False
        done = {
            "approved": answer.get("chosen_options") == ["Approve"],
            "applied": states[apply_task] == "success",
            "verified": states[VERIFY_TASK] == "success",
        }
        for name, happened in done.items():
            self.progress.counts[name] += happened
        if all(done.values()):
            self.progress.say(f"{run.dag_id}: approved by {person}, applied, verified on the cluster")
        else:
            missing = ", ".join(name for name, happened in done.items() if not happened)
            self.progress.fault(f"{run.dag_id} not {missing}\n{self.operator.failures(run.dag_id, run.run_id)}")
        return all(done.values())

    def _succeeded(self, dag_id: str, run_id: str) -> bool:
        state = self.operator.wait_run(dag_id, run_id, timeout_s=RUN_TIMEOUT_S)
        if state != "success":
            self.progress.fault(f"run {run_id} of {dag_id} is {state}\n{self.operator.failures(dag_id, run_id)}")
        return state == "success"

    def _compare(self, first: str | None, second: str | None) -> None:
        """Print both snapshots side by side."""
        if first is None or second is None:
            self.progress.fault("no comparison without two snapshots")
            return
        before, after = (self._figures(manifest) for manifest in (first, second))
        print(f"{'':34}{'before':>10}{'after':>10}")
        for name in before | after:
            print(f"{name:34}{before.get(name, '-'):>10}{after.get(name, '-'):>10}")

    def _figures(self, address: str) -> dict[str, int]:
        """What a snapshot says of the cluster's health, by name."""
        manifest = read_manifest(self.store, address)
        tables = {
            name: read_table(self.store, manifest, name).to_pylist()
            for name in ("partitions", "brokers", "topics", "requests", "notifications")
        }
        partitions: list[dict[str, Any]] = tables["partitions"]
        live = {broker["broker_id"] for broker in tables["brokers"]}
        figures = {
            "brokers": len(live),
            "topics": len(tables["topics"]),
            "partitions": len(partitions),
            "not led by their preferred replica": sum(p["leader"] != p["preferred_leader"] for p in partitions),
            "with a replica out of sync": sum(set(p["replicas"]) != set(p["isr"] or ()) for p in partitions),
            "ISR-change notifications": len(tables["notifications"]),
            "open requests": len(tables["requests"]),
        }
        replicas = Counter(replica for p in partitions for replica in p["replicas"])
        return figures | {f"replicas on broker {broker}": replicas[broker] for broker in sorted(live | set(replicas))}

    def _text(self, uri: str) -> str:
        """The report at a URI of the store; of a folder or a manifest, the report beside it."""
        key = uri.removeprefix(f"{self.store.uri}/")
        if not key.endswith(".md"):
            key = f"{key.rpartition('/')[0] if key.endswith('.json') else key}/report.md"
        return self.store.get(key).decode()


def _store_login(stack: LocalStack) -> dict[str, str]:
    store = stack.object_store
    return {
        "endpoint_url": store.endpoint_url,
        "access_key": store.access_key,
        "secret_key": store.secret_key,
        "region": "us-east-1",
    }
