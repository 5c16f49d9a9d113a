"""A broker that leaves in an orderly way, under the core."""

from collections.abc import Iterable
from dataclasses import replace

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.runtime.simulated.cluster import SimulatedCluster

OLDEST = (2, 4)
"""Of the versions that the laboratory runs."""


def shut_down(cluster: SimulatedCluster, broker: BrokerId, taken_back: Iterable[TopicPartition] = ()) -> None:
    """The controlled shutdown that a broker asks for, and its end.

    Before Kafka 3.3 leaders can take it back into the ISR until then (KAFKA-14140), here of the partitions `taken_back`, which
    it followed: its end costs these one more leader epoch.
    """
    leaving = cluster.nodes[broker].broker
    cluster.ask_controlled_shutdown(broker, leaving.epoch)
    cluster.settle()
    for partition in taken_back:
        local = leaving.replicas[partition]
        leader = cluster.nodes[local.leadership.leader].broker
        leaving.replicas[partition] = replace(local, leadership=leader.replicas[partition].leadership, fetching=True)
    cluster.settle()
    cluster.stop_broker(broker)
