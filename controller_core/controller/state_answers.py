"""How answers about `state` znodes are judged, the same in both state machines.

Source: Kafka 3.9 `KafkaZkClient.updateLeaderAndIsr`.
"""

from collections.abc import Mapping, Sequence

from controller_core.engine.turn import Turn
from controller_core.messages.answers import NO_NODE, Failed, ReadProblem, StatesRead, StatesWritten
from controller_core.model.partitions import LeaderAndIsr, TopicPartition

ANOTHER_CONTROLLER = "ANOTHER_CONTROLLER"


def read_states(
    turn: Turn, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, ReadProblem]]:
    """The states that this controller may act on, and what is wrong with the others.

    A state written under a higher controller epoch is not ours to change.
    """
    answer = turn.answer
    if not isinstance(answer, StatesRead):
        reason = ReadProblem(answer.error if isinstance(answer, Failed) else "no answer")
        return {}, dict.fromkeys(partitions, reason)
    epoch = turn.context.epoch
    found: dict[TopicPartition, LeaderAndIsr] = {}
    problems = dict(answer.problems)
    states = answer.found
    for partition in partitions:
        state = states.get(partition)
        if state is None:
            problems.setdefault(partition, ReadProblem(NO_NODE))
        elif state.controller_epoch > epoch:
            what = f"written by a controller of epoch {state.controller_epoch}, ours is {epoch}"
            problems[partition] = ReadProblem(ANOTHER_CONTROLLER, what)
        else:
            found[partition] = state
    return found, problems


def written_states(
    turn: Turn, partitions: Sequence[TopicPartition]
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, str]]:
    """New versions of the states that ZooKeeper accepted, and codes of the others."""
    answer = turn.answer
    if isinstance(answer, StatesWritten):
        return answer.versions, answer.problems
    return {}, dict.fromkeys(partitions, answer.error if isinstance(answer, Failed) else "no answer")


def why_written_failed(code: str) -> str:
    """One sentence on a state that was not written."""
    return f"state znode not written: ZooKeeper answered {code}"
