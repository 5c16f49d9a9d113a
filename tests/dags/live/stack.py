"""One whole local stack for the end-to-end and the browser tests: real brokers, real Airflow, a cron of a minute."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import ObjectStore, open_store
from controller_core.model.partitions import TopicPartition
from kafka_maintenance.demo.airflow_api import RUN_ENDED, AirflowApi, Gate
from kafka_maintenance.demo.stack import LocalStack, StackSettings
from kafka_maintenance.demo.traffic import create_topic, partition_states
from kafka_maintenance.servers.errors import NotHealthyError
from kafka_maintenance.servers.process import wait_until

CLUSTER = "e2e"
EVERY_MINUTE = "* * * * *"
ONCE_A_YEAR = "0 0 1 1 *"  # unpausing starts the slot of January, whose date is over: nothing is analysed
RING = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
RETIRED_TOPICS = ("retired-by-api", "retired-by-click", "kept")
TASK_TIMEOUT_S = 480.0  # far more than it takes on two idle cores


@dataclass(frozen=True)
class Live:
    """The stack, with what the tests look at."""

    stack: LocalStack
    orders: tuple[TopicPartition, ...]

    @property
    def operator(self) -> AirflowApi:
        """Who starts runs."""
        return self.stack.airflow.api("operator")

    @property
    def approver(self) -> AirflowApi:
        """Who answers gates."""
        return self.stack.airflow.api("approver")

    @property
    def store(self) -> ObjectStore:
        """The store that Airflow uses."""
        server = self.stack.object_store
        return open_store(
            self.stack.store_uri,
            endpoint_url=server.endpoint_url,
            access_key=server.access_key,
            secret_key=server.secret_key,
            region="us-east-1",
        )

    def topics(self) -> set[str]:
        """Topics of the real cluster."""
        with self.stack.kafka.session() as zookeeper:
            return set(zookeeper.children("/brokers/topics"))

    def leaders(self) -> list[int]:
        """Leader of each partition of `orders`."""
        with self.stack.kafka.session() as zookeeper:
            states = partition_states(zookeeper, self.orders)
        return [int(state.leader) for state in states.values() if state]

    def start(self, dag_id: str, conf: dict[str, object], **how: str) -> str:
        """Starts a run; its id."""
        return self.operator.trigger(dag_id, conf, **how)

    def answer(self, gate: Gate, option: str) -> None:
        """Answers as the approver, and waits until the run has succeeded.

        On a busy machine the scheduler may hear that the gate's first process has ended only after the answer; it then
        takes the gate for lost and asks once more, and a person answers once more.
        """
        self.approver.answer(gate, option, comment="end to end")
        self.succeed(gate.dag_id, gate.run_id, asked_again=option)

    def succeed(self, dag_id: str, run_id: str, *, asked_again: str | None = None) -> None:
        """Waits until the run is over, and shows where it stands and the logs of what failed when it does not succeed.

        `asked_again` is the answer when its gate asks once more.
        """
        api = self.operator

        def over() -> bool:
            if asked_again:
                self.approver.answer_all(dag_id, run_id, asked_again, comment="asked once more")
            return api.run(dag_id, run_id)["state"] in RUN_ENDED

        try:
            api.wait_for(over, what=f"run {run_id} of {dag_id} has ended", timeout_s=TASK_TIMEOUT_S)
        except NotHealthyError as error:
            going = [ti for ti in api.task_instances(dag_id, run_id) if ti["state"] in {"running", "up_for_retry"}]
            logs = [api.task_log(dag_id, run_id, ti["task_id"], try_number=max(1, ti["try_number"])) for ti in going]
            states = api.task_states(dag_id, run_id)
            pytest.fail(f"{error}\n{states}\n" + "\n".join(log[-4000:] for log in [*logs, self._brokers_say()]))
        assert api.run(dag_id, run_id)["state"] == "success", api.failures(dag_id, run_id)

    def _brokers_say(self) -> str:
        """What the brokers logged of deletions and lost sessions."""
        words = ("Topic Deletion Manager", "session has expired")
        lines = [
            f"{path.name}: {line}"
            for path in sorted(self.stack.workspace.logs.glob("*kafka*"))
            for line in path.read_text(errors="replace").splitlines()
            if any(word in line for word in words)
        ]
        return "\n".join(lines[-40:])


def started(dags: frozenset[str], settings: Mapping[str, str] | None = None) -> Live:
    """Starts the stack: topics, leaders away from their preferred replicas, DAGs unpaused; with further `settings` of Airflow's processes."""
    environment = {
        "KAFKA_MAINTENANCE_SNAPSHOT_CRON": EVERY_MINUTE,
        "KAFKA_MAINTENANCE_ANALYSIS_CRON": ONCE_A_YEAR,
        "KAFKA_MAINTENANCE_DRAIN_CRON": ONCE_A_YEAR,
        "KAFKA_MAINTENANCE_DRILL_CRON": ONCE_A_YEAR,
        "KAFKA_MAINTENANCE_CHECK_CRON": ONCE_A_YEAR,
        "KAFKA_MAINTENANCE_RETENTION_CRON": ONCE_A_YEAR,
        "KAFKA_MAINTENANCE_POKE_INTERVAL_S": "2",
        "KAFKA_MAINTENANCE_SNAPSHOT_WAIT_S": "60",
        "KAFKA_MAINTENANCE_DRIVER_MEMORY": "1g",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",  # no DAG file changes here
        "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "1200",
        **(settings or {}),
    }
    stack = LocalStack(StackSettings(cluster=CLUSTER, airflow_env=environment, workers=2))
    try:
        stack.start()
        live = Live(stack, tuple(create_topic(stack.kafka, "orders", dict(enumerate(RING * 2)))))
        for topic in RETIRED_TOPICS:
            create_topic(stack.kafka, topic, {0: (1, 2), 1: (3, 2)})  # broker 2 leads none: no election names them
        _unbalance(live)
        for dag_id in sorted(dags):
            live.operator.pause(dag_id, paused=False)
    except BaseException:
        stack.stop()
        raise
    return live


def first_scheduled_snapshot(live: Live) -> str:
    """Waits until the schedule of `snapshot_metadata` has fired by itself and its run has succeeded; the run's id."""
    since = datetime.now(UTC)
    api = live.operator
    api.pause("snapshot_metadata", paused=False)
    found: list[str] = []

    def fired() -> bool:
        for run in api.runs("snapshot_metadata"):
            due = datetime.fromisoformat(run["run_after"])
            if run["run_type"] == "scheduled" and due > since and run["state"] in {"success", "failed"}:
                found.append(run["dag_run_id"])
        return bool(found)

    api.wait_for(fired, what="the schedule of snapshot_metadata has fired", timeout_s=TASK_TIMEOUT_S)
    api.pause("snapshot_metadata", paused=True)
    live.succeed("snapshot_metadata", found[-1])
    return found[-1]


def _unbalance(live: Live) -> None:
    """Broker 2 restarts: it is in sync again and leads nothing."""
    broker = live.stack.kafka[2]
    broker.terminate()
    broker.start()
    with live.stack.kafka.session() as zookeeper:
        wait_until(
            lambda: all(
                state is not None and len(state.isr) == 3 for state in partition_states(zookeeper, live.orders).values()
            ),
            what="broker 2 is in sync again",
            timeout_s=90,
        )
