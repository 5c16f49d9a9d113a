"""A few fixed seeds; `make simulate` runs thousands."""

import re

import pytest

from controller_core.messages.effects import SendStopReplica, StopReplicaPartition
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import TopicPartition
from tests.simulation.actions import Action
from tests.simulation.invariants import BrokenInvariantError, Watchman
from tests.simulation.run import simulate
from tests.simulation.world import World


@pytest.mark.parametrize("seed", range(12))
def test_everything_holds_whatever_happens(seed: int) -> None:
    failure = simulate(seed, 60)
    assert failure is None, str(failure)


@pytest.mark.parametrize(
    ("broker", "delete", "broken"),
    [
        pytest.param(1, True, ["deletes t-0 on broker 1"], id="a replica that the assignment keeps is deleted"),
        pytest.param(1, False, [], id="it is only stopped"),
        pytest.param(0, True, [], id="a replica that is nobody's is deleted"),
    ],
)
def test_the_watchman_sees_who_is_deleted(broker: int, delete: bool, broken: list[str]) -> None:  # noqa: FBT001 -- a table
    world = World(dialect_for("3.9"), range(3), {})
    watchman = Watchman(world)
    for action in (
        *(Action("start", (each,)) for each in range(3)),
        Action("create", ("t", ((1, 2),))),
        Action("settle"),
    ):
        world.do(action)
    active = world.cluster.active_controller()
    stopped = StopReplicaPartition(TopicPartition("t", 0), delete, 5)
    request = SendStopReplica(
        broker=broker,
        broker_epoch=1,
        version=4,
        controller_id=active.id,
        controller_epoch=1,
        partition_states=(stopped,),
    )
    for listener in world._request_listeners:
        listener(active, request)
    told = []
    try:
        watchman.after_step()
    except BrokenInvariantError as error:
        told = re.findall(r"deletes \S+ on broker \d+", str(error)) or [str(error)]
    assert told == broken
