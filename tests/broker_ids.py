"""Ids of brokers as the core has them."""

from controller_core.model.partitions import BrokerId


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))
