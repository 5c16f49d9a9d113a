"""A cluster whose partitions have sizes."""

from tests.kafka_maintenance.kafka_world import three_brokers


def world():
    found = three_brokers()
    found.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    return found
