"""What must hold, whatever happens to a cluster (issue: "The worlds around it")."""

from __future__ import annotations

from controller_core.context.context import ControllerContext
from controller_core.messages.effects import BrokerRequest, SendStopReplica
from controller_core.model.partitions import NO_LEADER, LeaderAndIsr, TopicPartition
from controller_core.model.states import PartitionState
from controller_core.ports.zookeeper import WatchEventKind
from controller_core.runtime.simulated.cluster import SimulatedController
from controller_core.runtime.simulated.zookeeper import Applied
from controller_core.znodes import CONTROLLER_EPOCH, TOPICS, decode_controller_epoch, decode_state, state_partition_of
from tests.simulation.world import World

TOPIC_DEPTH = 3


class BrokenInvariantError(AssertionError):
    """Says what did not hold, and of what."""


class Watchman:
    """Sees every transaction, and looks at the cluster after each step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._epoch = 0
        self._states: dict[TopicPartition, LeaderAndIsr] = {}
        self._last_replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self._writers: dict[int, int] = {}
        self._broken: list[str] = []
        world.listen(self._see)
        world.listen_to_requests(self._see_request)

    def after_step(self) -> None:
        self._tell()
        self._counters()
        if self.world.is_quiet:
            for check in (self._isr_within_assignment, self._leaders, self._deleted_replicas):
                check()
        self._tell()

    def at_the_end(self) -> None:
        """Every broker is back and everybody has reacted."""
        self.after_step()
        for check in (self._deletions_are_complete, self._reassignments_are_complete, self._everybody_is_in_sync):
            check()
        self._tell()

    # ---- while it happens ----

    def _see(self, applied: Applied) -> None:
        for change in applied.changes:
            if change.path == CONTROLLER_EPOCH and change.kind is not WatchEventKind.CHILDREN:
                self._see_epoch()
            elif change.path.count("/") == TOPIC_DEPTH and change.path.startswith(TOPICS):
                if change.kind in {WatchEventKind.CREATED, WatchEventKind.CHANGED}:
                    replicas = self.world.tools.full_assignments(change.path.rpartition("/")[2])
                    self._last_replicas |= {partition: each.replicas for partition, each in replicas.items()}
            elif change.path.endswith("/state"):
                partition = state_partition_of(change.path)
                if change.kind is WatchEventKind.DELETED:
                    self._states.pop(partition, None)
                elif change.kind is not WatchEventKind.CHILDREN:
                    self._see_state(partition, change.path, applied)

    def _see_epoch(self) -> None:
        data, _ = self.world.tools.zookeeper.get(CONTROLLER_EPOCH)
        epoch = decode_controller_epoch(data)
        self._expect(epoch >= self._epoch, f"/controller_epoch went back from {self._epoch} to {epoch}")
        self._epoch = epoch

    def _see_state(self, partition: TopicPartition, path: str, applied: Applied) -> None:
        data, stat = self.world.tools.zookeeper.get(path)
        new = decode_state(data, path=path, version=stat.version)
        old = self._states.get(partition)
        self._states[partition] = new
        by_controller = old is None or new.leader_epoch > old.leader_epoch
        if old is not None:
            back = new.leader_epoch < old.leader_epoch or new.controller_epoch < old.controller_epoch
            self._expect(not back, f"an epoch of {partition} went back: {old} to {new}")
        if by_controller and self.world.dialect.epoch_fencing:
            writer = self._writers.setdefault(new.controller_epoch, applied.session_id)
            self._expect(
                writer == applied.session_id,
                f"two sessions wrote {partition} and others under controller epoch {new.controller_epoch}",
            )

    def _see_request(self, controller: SimulatedController, request: BrokerRequest) -> None:
        """No replica is deleted that the final assignment keeps."""
        if not isinstance(request, SendStopReplica):
            return
        context = controller.context
        for state in request.partition_states:
            partition = state.partition
            if state.delete_partition and not context.is_topic_queued_for_deletion(partition.topic):
                final = context.reassignment_targets.get(partition, context.full_assignment(partition).target)
                self._expect(
                    request.broker not in final,
                    f"controller {controller.id} deletes {partition} on broker {request.broker}, which {list(final)} keeps",
                )

    # ---- after a step ----

    def _counters(self) -> None:
        for node in self.world.nodes.values():
            context = node.controller.context
            if node.controller.is_active and node.controller.last.awaiting is None:
                offline, imbalanced = recounted(context)
                counted = (context.offline_partition_count, context.preferred_replica_imbalance_count)
                self._expect(
                    counted == (offline, imbalanced),
                    f"controller {node.broker.id} counts (offline, imbalanced) {counted}, a recount {offline, imbalanced}",
                )

    def _isr_within_assignment(self) -> None:
        to_be_deleted = set(self.world.tools.list_topic_deletions())
        for partition, state in self._known():
            if partition.topic in to_be_deleted and partition in self.world.moved:
                continue  # Kafka resumes a move in the middle of a deletion: who left stays in the ISR until both end
            replicas = self.world.tools.full_assignments(partition.topic)[partition].replicas
            self._expect(
                set(state.isr) <= set(replicas) and (state.leader in {*state.isr, NO_LEADER}),
                f"{partition}: leader {state.leader}, ISR {list(state.isr)}, assigned {list(replicas)}",
            )

    def _leaders(self) -> None:
        active = self.world.cluster.active_controller()
        if active is None:
            self._expect(not self.world.nodes, f"brokers {sorted(self.world.nodes)} live and none is controller")
            return
        for partition, state in self._known():
            if active.context.is_topic_queued_for_deletion(partition.topic) or partition in self.world.moved:
                continue  # a move whose election fails goes on without a leader, in Kafka as here
            able = [broker for broker in state.isr if active.context.is_replica_online(broker, partition)]
            self._expect(
                not able or active.context.is_replica_online(state.leader, partition, include_shutting_down=True),
                f"{partition} has leader {state.leader} although {able} of its ISR {list(state.isr)} live",
            )

    def _deleted_replicas(self) -> None:
        active = self.world.cluster.active_controller()
        if active is None:
            return
        for partition, state in self._known():
            if active.context.is_topic_queued_for_deletion(partition.topic):
                continue
            for broker in state.isr:
                disk = self.world.cluster.disks[broker]
                if broker not in self.world.nodes or disk.failed:
                    continue  # it may never have heard of the partition
                self._expect(
                    partition in disk.logs, f"broker {broker} is in the ISR of {partition} and has no log of it"
                )

    # ---- at the end ----

    def _deletions_are_complete(self) -> None:
        waiting = [topic for topic in self.world.tools.list_topic_deletions() if self._can_be_deleted(topic)]
        self._expect(not waiting, f"deletions of {waiting} are not complete although every broker is back")
        left = {
            (broker, str(partition))
            for broker, disk in self.world.cluster.disks.items()
            for partition in disk.logs
            if partition.topic not in self.world.tools.list_topics()
            and broker in self._last_replicas.get(partition, ())
            # Kafka resumes a move in the middle of a deletion, and logs come back; a broker that stopped a replica before
            # its log directory failed says that it deleted the log, which it cannot reach
            and partition not in self.world.moved
            and (broker, partition) not in self.world.out_of_reach
        }
        self._expect(not left, f"logs of deleted topics are left: {sorted(left)}")

    def _can_be_deleted(self, topic: str) -> bool:
        """Up to 1.1 a topic with a partition that never had a leader stays for ever (KAFKA-6650)."""
        partitions = self.world.tools.full_assignments(topic)
        return self.world.dialect.offline_without_leader_ok or all(each in self._states for each in partitions)

    def _reassignments_are_complete(self) -> None:
        self._expect(not self.world.tools.reassignment_in_progress(), "/admin/reassign_partitions is still there")
        self._expect(
            self.world.tools.get_preferred_election() is None, "/admin/preferred_replica_election is still there"
        )
        for topic in set(self.world.tools.list_topics()) - set(self.world.tools.list_topic_deletions()):
            for partition, assignment in self.world.tools.full_assignments(topic).items():
                wanted = self.world.targets.get(partition, assignment.replicas)
                self._expect(
                    not assignment.is_being_reassigned and assignment.replicas == wanted,
                    f"{partition} should end on {list(wanted)} and ends as {assignment}",
                )

    def _everybody_is_in_sync(self) -> None:
        for topic in set(self.world.tools.list_topics()) - set(self.world.tools.list_topic_deletions()):
            for partition, assignment in self.world.tools.full_assignments(topic).items():
                state = self._states.get(partition)
                self._expect(
                    state is not None
                    and set(state.isr) == set(assignment.replicas)
                    and state.leader in assignment.replicas,
                    f"{partition} on {list(assignment.replicas)} ends as {state} although every broker is back",
                )

    def _known(self) -> list[tuple[TopicPartition, LeaderAndIsr]]:
        topics = set(self.world.tools.list_topics())
        return [(partition, state) for partition, state in sorted(self._states.items()) if partition.topic in topics]

    def _expect(self, holds: bool, sentence: str) -> None:  # noqa: FBT001 -- reads like an assertion
        if not holds:
            self._broken.append(sentence)

    def _tell(self) -> None:
        if self._broken:
            raise BrokenInvariantError(self._broken[0])


def recounted(context: ControllerContext) -> tuple[int, int]:
    """Both counters, counted anew: offline partitions, and partitions whose leader is not the preferred one."""
    offline = imbalanced = 0
    for partition, entry in context.partitions.items():
        if entry.state is PartitionState.OFFLINE and partition.topic not in context.topics_with_deletion_started:
            offline += 1
        if (
            entry.leadership is None
            or entry.assignment is None
            or context.is_topic_queued_for_deletion(partition.topic)
        ):
            continue
        preferred = entry.assignment.replicas[0]
        if context.dialect.imbalance_waits_for_adding and preferred in entry.assignment.adding:
            imbalanced += preferred in entry.leadership.isr
        else:
            imbalanced += entry.leadership.leader != preferred
    return offline, imbalanced
