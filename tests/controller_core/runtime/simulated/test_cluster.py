"""The simulated cluster: what its controllers do with requests, as `ControllerChannelManager` does."""

from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId, ReplicaAssignment
from controller_core.runtime.simulated.cluster import SimulatedCluster

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def test_nothing_waits_for_a_broker_whose_channel_is_closed():
    sent = []
    cluster = SimulatedCluster(dialect_for("3.9"), sent=lambda _, request: sent.append(request.broker))
    for broker in (ONE, TWO, THREE):
        cluster.start_broker(broker)
    cluster.create_topics({"t": {0: ReplicaAssignment((ONE, TWO, THREE))}})
    cluster.settle()
    sent.clear()
    cluster.stop_broker(TWO)
    cluster.start_broker(TWO)  # a bounce is handled before the death, while the dead broker is still known
    cluster.stop_broker(THREE)
    cluster.settle()
    assert THREE in sent
    assert sorted(cluster.nodes[ONE].controller.channels) == [ONE, TWO]
