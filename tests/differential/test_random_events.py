"""The random events that real brokers live through, on paper alone: which ones come depends on the seed, and the core foresees each."""

from types import SimpleNamespace
from typing import Any

from controller_core.model.dialect import dialect_for
from tests.differential.lockstep import Tree
from tests.differential.random_events import Walk

EVENTS = 250
KINDS = {
    "a broker bounces, its start included",
    "a broker comes back, its start included",
    "a broker dies",
    "a broker shuts down",
    "a deletion",
    "a new topic",
    "a partition is added",
    "a reassignment",
    "an election",
    "an unclean election",
    "the controller changes",
}
NOWHERE: Any = SimpleNamespace(kafka=SimpleNamespace(brokers={}), zookeeper=None, successor=lambda: None)


def walked(seed: int) -> tuple[set[str], list[str], Tree]:
    """Kinds of events, events, and the tree after all brokers came back."""
    events = Walk(NOWHERE, dialect_for("3.9"), seed)
    happened = [events.begin()]
    events.foresee(happened[0])
    for _ in range(EVENTS):
        happened.append(events.next())
        events.foresee(happened[-1])
    while events.down:
        events.foresee(events.comes_back())
    last = events.foresee(events.elects())
    return {each.kind for each in happened}, [each.what for each in happened], last


def test_a_seed_gives_the_same_events() -> None:
    kinds, happened, last = walked(1)
    assert kinds == KINDS
    assert walked(1) == (kinds, happened, last)
    assert walked(2)[1] != happened


def test_when_all_brokers_are_back_every_partition_is_whole() -> None:
    _, _, last = walked(3)
    assert last.requests == ()
    for name, row in last.rows.items():
        assert (row.leader, set(row.isr)) == (row.assignment.replicas[0], set(row.assignment.replicas)), name
