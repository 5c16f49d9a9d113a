"""What a changed config tells the controller: unclean election that is switched on, for a topic or for all, and nothing else."""

import json

import pytest

from controller_core.messages.events import UncleanElectionEnabled
from controller_core.model.partitions import BrokerId
from controller_core.runtime.config_changes import ConfigChanges
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper

OURS = BrokerId(4)
KEY = "unclean.leader.election.enable"


class World:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.heard = 0
        self.changes = self.started()

    def started(self, *, static=False):
        return ConfigChanges(self.zookeeper, OURS, self.hear, static=static)

    def hear(self):
        self.heard += 1

    def set(self, entity, value):
        content = json.dumps({"version": 1, "config": {} if value is None else {KEY: value}}).encode()
        path = f"/config/{entity}"
        if self.zookeeper.exists(path) is None:
            self.zookeeper.create(path, content, make_parents=True)
        else:
            self.zookeeper.set(path, content, -1)
        self.notice(entity)

    def notice(self, entity):
        content = json.dumps({"version": 2, "entity_path": entity}).encode()
        self.zookeeper.create("/config/changes/config_change_", content, sequential=True, make_parents=True)

    def executed(self):
        return list(self.changes.executed())


@pytest.fixture
def world():
    found = World()
    found.changes.begin()
    return found


def test_a_topic_that_permits_it_elects_and_one_that_does_not_says_nothing(world):
    world.set("topics/orders", "true")
    assert world.heard == 1
    assert world.executed() == [UncleanElectionEnabled("orders")]
    world.set("topics/orders", "false")
    world.notice("topics/gone")
    assert world.heard == 2
    assert world.executed() == []
    assert not world.changes.unclean_election


def test_the_default_of_all_brokers_elects_once_and_the_brokers_own_config_counts_before_it(world):
    world.set("brokers/<default>", "true")
    assert world.executed() == [UncleanElectionEnabled()]
    assert world.changes.unclean_election
    world.notice("brokers/<default>")
    assert world.executed() == [], "it was on before"
    world.set("brokers/4", "false")
    world.set("brokers/3", "true")
    assert (world.executed(), world.changes.unclean_election) == ([], False)
    world.set("brokers/4", None)
    assert world.executed() == [UncleanElectionEnabled()]


def test_what_was_there_at_the_start_elects_nothing_and_counts(world):
    world.set("brokers/<default>", "true")
    world.set("topics/orders", "true")
    world.changes = world.started()
    world.changes.begin()
    assert (world.executed(), world.changes.unclean_election) == ([], True)
    world.set("brokers/<default>", None)
    assert (world.executed(), world.changes.unclean_election) == ([], False)


def test_a_notice_that_cannot_be_read_is_passed_over(world):
    world.zookeeper.create("/config/changes/config_change_", b"{", sequential=True)
    world.set("topics/orders", "true")
    assert world.executed() == [UncleanElectionEnabled("orders")]
