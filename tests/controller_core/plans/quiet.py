"""What was seen of a cluster on which nothing but what is asked is under way."""

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment
from controller_core.plans.observation import (
    ActiveController,
    Notification,
    Observation,
    RequestIdentity,
    TopicIdentity,
)
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1, Q0

SEEN = Observation(
    kafka_cluster_id="one",
    active_controller=ActiveController(BrokerId(1), czxid=5, version=0),
    controller_epoch=3,
    controller_epoch_version=3,
    brokers={BrokerId(n): Broker(BrokerId(n), rack="east" if n == 3 else None) for n in (1, 2, 3)},
    topics={"a": TopicIdentity(9, 2), "q": TopicIdentity(10, 1)},
    assignments={A0: ReplicaAssignment(ids(1, 2)), A1: ReplicaAssignment(ids(3, 2, 1), ids(3), ids(1))},
    states={A0: LeaderAndIsr(BrokerId(2), 4, ids(2, 1)), Q0: LeaderAndIsr(BrokerId(4), 0, ids(4, 1))},
    reassign_requests={A0: ids(3, 4)},
    election_requests=frozenset({Q0}),
    queued_topics=frozenset({"q"}),
    pending={"/admin/reassign_partitions": "other"},
    request_identities={
        "/admin/preferred_replica_election": RequestIdentity(7, 0),
        "/admin/reassign_partitions": RequestIdentity(8, 0),
    },
    notifications=(Notification("isr_change_0000000001", (A0,), 0),),
)
