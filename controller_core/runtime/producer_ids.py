"""Blocks of producer ids, given out as a controller in ZooKeeper mode does.

Source: Kafka 3.9 `ZkProducerIdManager.getNewProducerIdBlock` (blocks of 1,000, a conditional write that is tried again).
"""

from typing import Final

from controller_core.model.errors import BadVersionError, NoNodeError
from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.znodes import LATEST_PRODUCER_ID_BLOCK, decode_producer_id_block, encode_producer_id_block
from controller_core.znodes.controller import ProducerIdBlock

BLOCK_SIZE: Final = 1000


def allocate_producer_ids(zookeeper: ZooKeeper, broker: BrokerId) -> ProducerIdBlock:
    """The next block, which is the broker's from now on.

    Raises:
        MalformedZnodeError: the znode does not say which block is the last.
        ZooKeeperError: it cannot be read or written.
    """
    while True:
        try:
            data, stat = zookeeper.get(LATEST_PRODUCER_ID_BLOCK)
        except NoNodeError:
            zookeeper.create(LATEST_PRODUCER_ID_BLOCK)
            continue
        last = decode_producer_id_block(data)
        start = 0 if last is None else last.block_end + 1
        block = ProducerIdBlock(broker, start, start + BLOCK_SIZE - 1)
        try:
            zookeeper.set(LATEST_PRODUCER_ID_BLOCK, encode_producer_id_block(block), version=stat.version)
        except BadVersionError:  # another one was given out meanwhile
            continue
        return block
