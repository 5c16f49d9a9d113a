"""Real brokers against the core: after each step the live tree is what the core predicted from the tree before it, and the
controller's `state-change.log` says what the core says.

The prediction starts from the live tree: it is loaded into the simulated cluster, where `controller_core` commands brokers
that obey, and the same request is made there.
"""

import pytest

from controller_core.model.partitions import BrokerId
from kafka_maintenance.servers.kafka import KafkaCluster
from tests.differential.lockstep import BROKERS, Lockstep, create_topic, delete_topic, elect, reassign
from tests.differential.under_the_core import PATIENT
from tests.kafka_versions import kafka_versions

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", kafka_versions("3.9", "1.1"))
def test_the_live_tree_is_what_the_core_predicted(version: str) -> None:
    with KafkaCluster(version, brokers=len(BROKERS), config=PATIENT) as kafka, kafka.session() as zookeeper:
        world = Lockstep(kafka, zookeeper)
        world.request("a new topic", create_topic)
        victim = max(broker for broker in BROKERS if broker != world.controller())
        world.shows(
            "a broker dies",
            lambda cluster: cluster.stop_broker(BrokerId(victim)),
            lambda: kafka[victim].kill(forget=True),
        )
        world.shows("the broker is back", lambda cluster: cluster.start_broker(BrokerId(victim)), kafka[victim].start)
        world.request("preferred leaders are elected", elect)
        world.request("two partitions are reassigned", reassign)
        world.request("the topic is deleted", delete_topic)
