"""What was asked and not done, with the reason: a normal outcome, not an exception."""

from dataclasses import dataclass
from enum import Enum

from controller_core.model.partitions import PartitionAndReplica, TopicPartition


class RefusalKind(Enum):
    """Why something was not done."""

    ILLEGAL_TRANSITION = "illegal transition"  # the state machine's table forbids it
    FAILED_TRANSITION = "failed transition"  # legal, but it could not be carried out
    CONTROLLER_MOVED = "controller moved"  # another controller is active: nothing more of this is done
    BROKEN_BATCH = "broken batch"  # the request batch could not be opened or sent
    INVALID_REQUEST = "invalid request"  # the asker must change what it asks
    NOT_ACTIVE = "not active"  # this controller is not the active one
    BUSY = "busy"  # queued behind what is under way
    KRAFT = "kraft"  # a KRaft controller, or a migration to it, owns the cluster
    ISOLATED = "isolated"  # one bad partition was left out so that the others go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One thing that was not done.

    `kafka` is set where Kafka's own controller would do something else, and says what: an operator with a wedged
    cluster looks for exactly that sentence. `error` is Kafka's name of an error where a caller gets one.
    """

    kind: RefusalKind
    subject: TopicPartition | PartitionAndReplica | str
    reason: str
    kafka: str = ""
    error: str = ""
