"""Partitions whose replicas lie in a ring, seen with their leaders."""

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.kinds import Origin, choose_leader_moves, leader_moves_plan
from controller_core.plans.observation import ActiveController, Observation, TopicIdentity
from tests.broker_ids import ids

ORIGIN = Origin("alpha")


def observed(rows, *, registered=(1, 2, 3), version=5):
    """`rows`: (replicas, ISR) of each partition of topic t; the first of the ISR leads."""
    partitions = [TopicPartition("t", number) for number in range(len(rows))]
    return Observation(
        active_controller=ActiveController(BrokerId(1), 7, 0),
        controller_epoch=3,
        controller_epoch_version=3,
        brokers={each: Broker(each, 1, (), f"rack-{each}") for each in ids(*registered)},
        broker_json_versions=dict.fromkeys(ids(*registered), version),
        topics={"t": TopicIdentity(1, len(rows))},
        assignments={p: ReplicaAssignment(ids(*replicas)) for p, (replicas, _) in zip(partitions, rows, strict=True)},
        states={p: LeaderAndIsr(BrokerId(isr[0]), 4, ids(*isr)) for p, (_, isr) in zip(partitions, rows, strict=True)},
    )


def planned(found, avoided=(1,)):
    chosen = choose_leader_moves(found, ids(*avoided))
    return leader_moves_plan(found, ORIGIN, chosen.moves, left_out=chosen.left_out)


RING = [((1, 2, 3), (1, 2, 3)), ((2, 3, 1), (2, 3, 1)), ((3, 1, 2), (3, 1, 2)), ((1, 3, 2), (1, 3, 2))]
