"""A move under a throttle on a real cluster through the gate, long enough to be stopped, gone on with and cancelled by the DAGs that do so."""

import re
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

from kafka import KafkaProducer

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId
from controller_core.plans.request_znodes import Target
from kafka_maintenance.demo.airflow_api import PERSON_TIMEOUT_S, AirflowApi, Gate
from kafka_maintenance.demo.stack import LocalStack
from kafka_maintenance.demo.traffic import create_topic, message_counts
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.record.receipts import Event, read_events
from kafka_maintenance.servers.errors import AirflowRequestError, LocalStackError

DAG_ID, APPLY_TASK = "reassign_partitions", "apply_plan"
STOP_DAG, CANCEL_DAG = "stop_execution", "cancel_execution"
TOPIC = "heavy"
MESSAGE = b"x" * 10_000
THROTTLE_BYTES_PER_S = 50_000
ASSIGNMENT = {0: (1, 2), 1: (2, 1)}
WAVES = ((0, (1, 3)), (1, (2, 3)))
"""Each a partition and the replica list that it gets: one replica is copied to broker 3."""
TIMEOUT_S = 480.0
_FIELDS = re.compile(r"( \w+=\S+)+$")
"""What Airflow adds to a line: names of DAG, run, task and file."""


class RejectedMoveError(LocalStackError):
    """A person rejected the plan: nothing more is asked of Kafka."""


class ThrottledMove:
    """The runs of one plan that moves two partitions in two waves: the newest is looked at.

    What waits raises LocalStackError when a run fails that should not, or nothing happens in time, and RejectedMoveError.
    """

    def __init__(
        self,
        stack: LocalStack,
        store: ObjectStore,
        cluster: str,
        messages: Sequence[int],
        *,
        comment: str | None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Make topic and plan, and unpause the DAGs; nothing is moved.

        Args:
            stack: started, with Airflow.
            store: that of its Airflow.
            cluster: connection id of its cluster; with `bootstrap_servers` its brokers are asked.
            messages: of 10 kB for each of the two partitions; 300 of them are copied in a minute.
            comment: with which the approver says yes at each gate; None: a person answers.
            tell: called with each line in which a run says how far it is.
        """
        self.stack, self.store, self.cluster, self.comment, self._tell = stack, store, cluster, comment, tell
        self.operator: AirflowApi = stack.airflow.api("operator")
        self.approver: AirflowApi = stack.airflow.api("approver")
        self.messages = dict(enumerate(messages))
        self.partitions = create_topic(stack.kafka, TOPIC, ASSIGNMENT)
        self._fill()
        planned = plan_reassignment(
            store,
            cluster,
            waves=[[Target(TOPIC, number, tuple(map(BrokerId, to)))] for number, to in WAVES],
            zookeeper=ClusterAddress(stack.kafka.zookeeper_connect),
            throttle_bytes_per_s=THROTTLE_BYTES_PER_S,
        )
        if planned is None:
            raise LocalStackError(
                f"planning the move of {TOPIC}: expected replicas to move, found all where they belong"
            )
        self.digest = planned.digest
        self.run_id, self._told = "", set[str]()
        for dag_id in (DAG_ID, STOP_DAG, CANCEL_DAG):
            self.operator.pause(dag_id, paused=False)

    def ask(self) -> Gate:
        """Start a run of the plan; its gate, which waits for its answer."""
        self.run_id = self.operator.trigger(DAG_ID, {"cluster": self.cluster, "plan": self.digest})
        return self.approver.wait_gate(DAG_ID, self.run_id, timeout_s=TIMEOUT_S)

    def recorded(self) -> Sequence[Event]:
        """The record of the plan."""
        return read_events(self.store, self.cluster, self.digest)

    def events(self) -> list[tuple[str, int | None]]:
        """Each event of the record with the number of its step, counted from 0."""
        return [(str(each.event), each.step) for each in self.recorded()]

    def state(self) -> str | None:
        """Of the task that carries the plan out, in the newest run."""
        return self.operator.task_states(DAG_ID, self.run_id).get(APPLY_TASK)

    def log(self) -> str:
        """What that task has logged so far; empty before it began."""
        with suppress(AirflowRequestError):
            return self.operator.task_log(DAG_ID, self.run_id, APPLY_TASK)
        return ""

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait until `done()`: answer what is asked, tell how far it is; a run that ends before is an error that shows why."""

        def happened() -> bool:
            if self.comment is not None:
                self.approver.answer_all(DAG_ID, self.run_id, "Approve", comment=self.comment)
            self._tell_progress()
            if done():
                return True
            if self.operator.last_answer(DAG_ID, self.run_id).get("chosen_options") == ["Reject"]:
                raise RejectedMoveError(f"waiting until {what}: the plan was rejected; nothing more is moved")
            if self.operator.run(DAG_ID, self.run_id)["state"] == "failed":
                raise LocalStackError(
                    f"waiting until {what}: the run failed before\n{self.operator.failures(DAG_ID, self.run_id)}"
                )
            return False

        timeout_s = PERSON_TIMEOUT_S if self.comment is None else TIMEOUT_S
        self.operator.wait_for(happened, what=what, timeout_s=timeout_s)

    def wait_end(self) -> str:
        """Wait until the run has ended: "success", or "failed", as one does that was stopped or cancelled."""
        state = self.operator.wait_run(DAG_ID, self.run_id, timeout_s=TIMEOUT_S)
        self._tell_progress()
        return state

    def stop(self, reason: str) -> None:
        """Ask the run to end, and wait until it has; what Kafka was asked for goes on."""
        self._succeed(STOP_DAG, reason=reason)
        self.wait_end()

    def cancel(self, reason: str) -> None:
        """Cancel what is under way: shown first, then done with the digest of what was shown; the run has ended."""
        shown = self._succeed(CANCEL_DAG, reason=reason)
        approve = self.operator.xcom(CANCEL_DAG, shown, "cancel_moves")["approve"]
        self._succeed(CANCEL_DAG, reason=reason, approve=approve)
        self.wait_end()

    def replicas(self) -> dict[int, set[int]]:
        """Partition → its replicas in ZooKeeper."""
        with self.stack.kafka.session() as zookeeper:
            seen = observe(zookeeper, topics=[TOPIC], partitions=self.partitions)
        return {each.partition: set(map(int, found.replicas)) for each, found in seen.assignments.items()}

    def broker_config(self) -> bytes:
        """The settings of the broker that gets the replicas, as ZooKeeper holds them; a throttle is one."""
        with self.stack.kafka.session() as zookeeper:
            return zookeeper.get("/config/brokers/3")[0]

    def lost(self) -> int:
        """Messages that were acknowledged and cannot be read."""
        readable = message_counts(self.stack.kafka, TOPIC)
        return sum(count - readable.get(number, 0) for number, count in self.messages.items())

    def _fill(self) -> None:
        with closing(
            KafkaProducer(bootstrap_servers=self.stack.kafka.bootstrap_servers, acks="all", enable_idempotence=False)
        ) as producer:
            promises = [
                producer.send(TOPIC, MESSAGE, partition=number)
                for number, count in self.messages.items()
                for _ in range(count)
            ]
            for promise in promises:
                promise.get(TIMEOUT_S)

    def _tell_progress(self) -> None:
        """Each new line in which the run names its plan; a line begins with its time."""
        for line in self.log().splitlines():
            _, found, told = line.partition(f"plan {self.digest[:12]} on ")
            if found and line not in self._told:
                self._told.add(line)
                self._tell(f"{found}{_FIELDS.sub('', told)}")

    def _succeed(self, dag_id: str, **conf: Any) -> str:
        run_id = self.operator.trigger(dag_id, {"cluster": self.cluster, **conf})
        if self.operator.wait_run(dag_id, run_id, timeout_s=TIMEOUT_S) != "success":
            raise LocalStackError(f"run {run_id} of {dag_id} failed\n{self.operator.failures(dag_id, run_id)}")
        return run_id
