"""The order of keys in Scala's and Java's maps, which Kafka writes."""

import pytest

from controller_core.znodes import ScalaVersion
from controller_core.znodes.key_order import immutable_map_order, mutable_map_order, properties_order

NUMBERS = [str(number) for number in range(14)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(mutable_map_order(NUMBERS, ScalaVersion.V2_13), "11 12 13 0 1 2 3 4 5 6 7 8 9 10", id="mutable, 2.13"),
        pytest.param(immutable_map_order(NUMBERS, ScalaVersion.V2_13), "12 8 4 13 5 10 0 2 7 3 11 9 6 1", id="immutable, 2.13"),
        pytest.param(mutable_map_order(NUMBERS, ScalaVersion.V2_12), "2 5 12 8 7 1 4 11 6 0 9 3 10 13", id="mutable, 2.12"),
        pytest.param(immutable_map_order(NUMBERS, ScalaVersion.V2_11), "12 8 4 11 9 13 5 10 6 1 0 2 7 3", id="immutable, 2.11"),
        pytest.param(properties_order(NUMBERS), "11 12 13 0 1 2 3 4 5 6 7 8 9 10", id="Properties"),
        pytest.param(immutable_map_order(["b", "a"], ScalaVersion.V2_11), "b a", id="up to four keys stay as written"),
        pytest.param(immutable_map_order(["AaAa", "AaBB", "BBAa", "BBBB", "x"], ScalaVersion.V2_13), "x AaAa AaBB BBAa BBBB", id="equal hashes stay as written"),
    ],
)  # fmt: skip
def test_keys_come_in_the_order_of_the_map_that_held_them(order, expected):
    assert order == expected.split()


def test_every_order_is_an_order_of_all_keys():
    names = [f"key-{number}" for number in range(200)]
    for scala in ScalaVersion:
        assert sorted(mutable_map_order(names, scala)) == sorted(names)
        assert sorted(immutable_map_order(names, scala)) == sorted(names)
