"""Which snapshots a night consists of: the expected ones, the missing ones with the reason, and what is read for it."""

import json

import pytest

from controller_core.adapters.object_store import MemoryStore
from kafka_maintenance.operations import analyse
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.snapshot_choice import NoSnapshotError, choose, snapshot_of_night
from kafka_maintenance.operations.snapshots import newest_snapshot
from tests.spark.worlds import NIGHT, World, publish

ALPHA, BETA = (
    World(cluster=name, brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),)) for name in ("alpha", "beta")
)


class CountingStore(MemoryStore):
    """Counts the objects that are read."""

    reads = 0

    def get(self, key):
        self.reads += 1
        return super().get(key)


@pytest.fixture
def store():
    found = CountingStore()
    for world in (ALPHA, ALPHA.on(1), ALPHA.on(2), BETA.on(2)):
        publish(world, found)
    found.reads = 0
    return found


def chosen(choice):
    return [manifest.cluster for manifest in choice.snapshots]


def damage(store, world):
    key = newest_snapshot(store, world.cluster, world.night).key
    store.put(key, b"{")
    return key


def test_a_cluster_seen_in_the_nights_before_is_missed(store):
    choice = choose(store, NIGHT)
    assert chosen(choice) == ["alpha"]
    assert choice.missing == {"beta": "cluster 'beta' has no snapshot of 2026-11-20; the nearest are of 2026-11-18."}


def test_one_seen_earlier_only_or_later_is_not(store):
    assert choose(store, NIGHT, history_nights=2).missing == {}
    publish(World(cluster="gamma", night=NIGHT), store)
    assert choose(store, ALPHA.on(2).night).missing == {}


def test_a_named_cluster_is_missed_whatever_was_seen(store):
    choice = choose(store, NIGHT, ["alpha", "nobody"])
    assert chosen(choice) == ["alpha"]
    assert choice.missing == {"nobody": "cluster 'nobody' has no snapshot of 2026-11-20, and none of any other night."}


def test_a_snapshot_that_cannot_be_read_is_missed_and_stops_no_other(store):
    publish(BETA, store)
    key = damage(store, BETA)
    choice = choose(store, NIGHT)
    assert chosen(choice) == ["alpha"]
    assert key in choice.missing["beta"]


def test_a_night_with_no_usable_snapshot_says_why(store):
    key = damage(store, ALPHA)
    with pytest.raises(BadInputError, match=f"nights with one are 2026-11-18, 2026-11-19, 2026-11-20.*{key}"):
        choose(store, NIGHT)


@pytest.mark.parametrize(
    ("nights_ago", "note"),
    [
        pytest.param([], "has no snapshot of 2026-11-20, and none of any other night.", id="no snapshot at all"),
        pytest.param([1], "the nearest are of 2026-11-19.", id="one"),
        pytest.param([9, 2, -2, -10], "the nearest are of 2026-11-18, 2026-11-22.", id="one on each side"),
        pytest.param([9, 8, 7], "the nearest are of 2026-11-12, 2026-11-13.", id="only earlier ones"),
    ],
)
def test_a_missing_night_names_the_nearest(nights_ago, note):
    store = MemoryStore()
    for ago in nights_ago:
        publish(ALPHA.on(ago), store)
    with pytest.raises(NoSnapshotError, match=r"^cluster 'alpha' has no snapshot of 2026-11-20") as told:
        snapshot_of_night(store, "alpha", NIGHT)
    assert str(told.value).endswith(note)


def test_the_newest_snapshot_is_found_without_reading_the_history(store):
    assert newest_snapshot(store, "alpha").date == str(NIGHT)
    assert store.reads == 1


def test_an_earlier_night_that_cannot_be_read_is_named_and_the_others_are_staged(store, tmp_path):
    key = damage(store, ALPHA.on(1))
    staged = analyse.stage(store, choose(store, NIGHT).snapshots, tmp_path, run_id="r", night=NIGHT)
    (problem,) = json.loads((tmp_path / "problems.json").read_text())
    assert (problem["cluster"], problem["date"]) == ("alpha", "2026-11-19")
    assert key in problem["reason"]
    nights = sorted(path.parent.parent.name for path in tmp_path.rglob("manifest.json"))
    assert nights == ["date=2026-11-18", "date=2026-11-20"]
    assert staged.row_count == 2
