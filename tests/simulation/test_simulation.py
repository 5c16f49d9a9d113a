"""A few fixed seeds; `make simulate` runs thousands."""

import pytest

from tests.simulation.run import simulate


@pytest.mark.parametrize("seed", range(12))
def test_everything_holds_whatever_happens(seed: int) -> None:
    failure = simulate(seed, 60)
    assert failure is None, str(failure)
