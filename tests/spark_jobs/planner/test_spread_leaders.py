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


def test_without_partitions_nothing_moves() -> None:
    assert spread_leaders([], [1], 0.1).moves == {}
