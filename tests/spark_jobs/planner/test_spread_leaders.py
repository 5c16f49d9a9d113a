"""Leaders spread by bytes: on small clusters as few move as any choice needs, on large ones each move is one that may be."""

import itertools
from random import Random

import pytest

from spark_jobs.planner import spread_leaders as module
from spark_jobs.planner.spread_leaders import Led, bytes_led, spread_leaders


def cluster(random: Random, *, partitions: int, brokers: int) -> list[Led]:
    found = []
    for _ in range(partitions):
        leader, *others = random.sample(range(brokers), random.randint(1, min(3, brokers)))
        found.append(Led(leader, tuple(others), random.choice([0, 1, 5, 10, 40, 100])))
    return found


def heaviest(partitions: list[Led], moves: dict[int, int]) -> int:
    return max(bytes_led(partitions, moves).values())


def best(partitions: list[Led], limit: float) -> tuple[bool, int]:
    """By trying everything: whether the limit can be kept, and the fewest moves that keep it, or else the least that can be."""
    tried = [
        {number: broker for number, broker in enumerate(choice) if broker != partitions[number].leader}
        for choice in itertools.product(*((each.leader, *each.others) for each in partitions))
    ]
    least = min(heaviest(partitions, moves) for moves in tried)
    return least <= limit, min(len(moves) for moves in tried if heaviest(partitions, moves) <= max(limit, least))


@pytest.mark.parametrize("seed", range(60))
def test_as_few_move_as_any_choice_needs(seed: int) -> None:
    random = Random(seed)
    brokers = random.randint(2, 4)
    partitions, tolerance = (
        cluster(random, partitions=random.randint(1, 7), brokers=brokers),
        random.choice([0, 0.1, 1]),
    )
    limit = int((1 + tolerance) * sum(each.size for each in partitions) / brokers)
    spread = spread_leaders(partitions, range(brokers), tolerance)
    assert (spread.within, len(spread.moves)) == best(partitions, limit)
    assert spread.moves_least == len(spread.moves)
    assert all(broker in partitions[number].others for number, broker in spread.moves.items())
    assert not spread.within or heaviest(partitions, dict(spread.moves)) <= limit


def test_only_the_largest_are_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONSIDERED_MAX", 1)
    spread = spread_leaders([Led(1, (2,), 3), Led(1, (2,), 5), Led(1, (2,), 4), Led(2, (), 1)], [1, 2], 0)
    assert (spread.moves, spread.within) == ({1: 2}, False)


def test_bytes_beyond_the_solvers_numbers() -> None:
    spread = spread_leaders([Led(1, (2,), 7 * 10**15), Led(1, (2,), 10**15), Led(1, (), 6 * 10**15)], [1, 2], 0.01)
    assert (spread.moves, spread.within) == ({0: 2}, True)


@pytest.mark.parametrize(
    ("size", "leaders", "tolerance"),
    [
        pytest.param(10 * 2**30 + 1, (1, 1, 2, 2), 0, id="even to the byte"),
        pytest.param(10 * 2**60 + 1, (1, 1, 2, 2), 0, id="more bytes than the solver counts"),
        pytest.param(5, (1,) * 23 + (2,) * 17, 0.15, id="a decimal that no float holds"),
        pytest.param(10, (1, 1, 1, 1), 1e30, id="a limit beyond the solver's numbers"),
    ],
)
def test_leaders_that_just_keep_the_limit_stay(size: int, leaders: tuple[int, ...], tolerance: float) -> None:
    spread = spread_leaders([Led(leader, (3 - leader,), size) for leader in leaders], [1, 2], tolerance)
    assert (spread.moves, spread.moves_least, spread.within) == ({}, 0, True)


@pytest.mark.parametrize(
    ("size", "moves_least"),
    [
        pytest.param(10 * 2**30 + 1, 1, id="counted in bytes"),
        pytest.param(10 * 2**60 + 1, 0, id="rounded, so nothing is proven"),
    ],
)
def test_as_many_move_as_the_bytes_need(size: int, moves_least: int) -> None:
    spread = spread_leaders([Led(1, (2,), each) for each in (2 * size, size, size)], [1, 2], 0)
    assert (spread.moves, spread.moves_least, spread.within) == ({0: 2}, moves_least, True)


def test_without_partitions_nothing_moves() -> None:
    assert spread_leaders([], [1], 0.1).moves == {}
