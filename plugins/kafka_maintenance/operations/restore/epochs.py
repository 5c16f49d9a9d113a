"""Raises what brokers take for monotonic, so that a tree that is older than their logs does not lead back.

A leader epoch below those in the logs confuses their truncation, a controller epoch below one that brokers have seen is
refused by them, and a producer id that is issued twice breaks idempotence. All are raised by the same number, as etcd raises
revisions when a snapshot is restored.
Source: KIP-101 and KIP-279 (leader epochs), KIP-360 (producer ids); docs/znodes.md.
"""

import re
from dataclasses import replace
from typing import Final

from controller_core import znodes
from controller_core.model.errors import MalformedZnodeError
from kafka_maintenance.operations.errors import BadInputError

PRODUCER_IDS_PER_BLOCK: Final = 1000
_STATE: Final = re.compile(r"^/brokers/topics/[^/]+/partitions/[0-9]+/state$")
_INT_MAX: Final = 2**31 - 1
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"


def raised(path: str, data: bytes | None, bump: int) -> bytes | None:
    """The data of a znode with its epoch or its block of producer ids raised; as they are where it holds none of these.

    Raises:
        BadInputError: the raised epoch does not fit into 32 bits.
    """
    if not bump or not data:
        return data
    try:
        if _STATE.match(path):
            state = znodes.decode_state(data, path=path, version=0)
            return znodes.encode_state(state._replace(leader_epoch=_sum(path, state.leader_epoch, bump)))
        if path == znodes.CONTROLLER_EPOCH:
            return str(_sum(path, znodes.decode_controller_epoch(data), bump)).encode()
        if path == LATEST_PRODUCER_ID_BLOCK:
            block = znodes.decode_producer_id_block(data)
            if block is not None:
                ids = bump * PRODUCER_IDS_PER_BLOCK
                block = replace(block, block_start=block.block_start + ids, block_end=block.block_end + ids)
                return znodes.encode_producer_id_block(block)
    except MalformedZnodeError:  # brought back as it was: nobody can say what its epoch is
        return data
    return data


def _sum(path: str, epoch: int, bump: int) -> int:
    if epoch + bump > _INT_MAX:
        raise BadInputError(
            f"epoch of {path!r} not raised: expected at most {_INT_MAX}, found {epoch} + {bump}; give a smaller --epoch-bump"
        )
    return epoch + bump
