"""Which snapshots a date consists of: the expected ones, the missing ones with the reason, and what is read for it."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.manifest import run_token, snapshot_prefix
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.analysis import run as analyse
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.snapshots.blame import blame, blame_text
from kafka_maintenance.operations.snapshots.catalog import earlier_of, find_snapshot, newest_snapshot
from kafka_maintenance.operations.snapshots.choice import NoSnapshotError, choose, snapshots_of_date
from tests.kafka_maintenance.snapshot_world import stored_day
from tests.spark_jobs.worlds import DAY, World, publish

ALPHA, BETA = (
    World(cluster=name, brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),)) for name in ("alpha", "beta")
)
LATER = replace(ALPHA, zxid=ALPHA.zxid + 1)
"""A second snapshot of the same date."""


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
    key = f"{snapshot_prefix(world.cluster, world.taken_at, world.snapshot_id)}/manifest.json"
    assert store.list(key)
    store.put(key, b"{")
    return key


def test_a_cluster_seen_in_the_days_before_is_missed(store):
    choice = choose(store, DAY)
    assert chosen(choice) == ["alpha"]
    assert choice.missing == {"beta": "cluster 'beta' has no snapshot of 2026-11-20; the nearest are of 2026-11-18."}


def test_one_seen_earlier_only_or_later_is_not(store):
    assert choose(store, DAY, history_days=2).missing == {}
    publish(World(cluster="gamma", day=DAY), store)
    assert choose(store, ALPHA.on(2).day).missing == {}


def test_of_the_first_date_that_there_is_no_snapshot_is_expected(store):
    with pytest.raises(BadInputError, match="date 0001-01-01 not analysed: expected a snapshot"):
        choose(store, "0001-01-01")


def test_a_named_cluster_is_missed_whatever_was_seen(store):
    choice = choose(store, DAY, ["alpha", "nobody"])
    assert chosen(choice) == ["alpha"]
    assert choice.missing == {"nobody": "cluster 'nobody' has no snapshot of 2026-11-20, and none of any other date."}


def test_a_snapshot_that_cannot_be_read_is_missed_and_stops_no_other(store):
    publish(BETA, store)
    key = damage(store, BETA)
    choice = choose(store, DAY)
    assert chosen(choice) == ["alpha"]
    assert key in choice.missing["beta"]


def test_a_day_with_no_usable_snapshot_says_why(store):
    key = damage(store, ALPHA)
    with pytest.raises(BadInputError, match=f"dates with one are 2026-11-18, 2026-11-19, 2026-11-20.*{key}"):
        choose(store, DAY)


@pytest.mark.parametrize(
    ("days_ago", "note"),
    [
        pytest.param([], "has no snapshot of 2026-11-20, and none of any other date.", id="no snapshot at all"),
        pytest.param([1], "the nearest are of 2026-11-19.", id="one"),
        pytest.param([9, 2, -2, -10], "the nearest are of 2026-11-18, 2026-11-22.", id="one on each side"),
        pytest.param([9, 8, 7], "the nearest are of 2026-11-12, 2026-11-13.", id="only earlier ones"),
    ],
)
def test_a_missing_day_names_the_nearest(days_ago, note):
    store = MemoryStore()
    for ago in days_ago:
        publish(ALPHA.on(ago), store)
    found, errors = snapshots_of_date(store, ["alpha"], DAY)
    assert found == []
    assert isinstance(errors["alpha"], NoSnapshotError)
    assert str(errors["alpha"]).startswith("cluster 'alpha' has no snapshot of 2026-11-20")
    assert str(errors["alpha"]).endswith(note)


def test_the_newest_snapshot_is_found_without_reading_the_history(store):
    assert newest_snapshot(store, "alpha").date == str(DAY)
    assert store.reads == 1


def test_a_snapshot_is_found_by_its_id_whatever_else_is_damaged(store):
    for world in (ALPHA.on(1), BETA.on(2)):
        damage(store, world)
    assert find_snapshot(store, ALPHA.snapshot_id[:-1]).snapshot_id == ALPHA.snapshot_id
    assert store.reads == 1, "only what is meant is read"
    with pytest.raises(ObjectDamagedError):
        find_snapshot(store, BETA.on(2).snapshot_id, "beta")


def test_newest_is_the_newest_that_can_be_read_and_those_passed_over_are_told(store, caplog):
    publish(LATER, store)
    newer, new, old = (damage(store, world) for world in (LATER, ALPHA, ALPHA.on(2)))
    assert find_snapshot(store, "newest", "alpha").snapshot_id == ALPHA.on(1).snapshot_id
    assert [key in caplog.text for key in (newer, new, old)] == [True, True, False]
    damage(store, ALPHA.on(1))
    with pytest.raises(ObjectDamagedError, match="date=2026-11-20"):
        find_snapshot(store, "newest", "alpha")


NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)
CHOOSERS = {
    "newest": lambda store: find_snapshot(store, "newest", "alpha", now=NOON),
    "the newest of a cluster": lambda store: newest_snapshot(store, "alpha", now=NOON),
    "the one before": lambda store: next(earlier_of(store, "alpha", now=NOON)),
}


@pytest.mark.parametrize("choose_one", CHOOSERS.values(), ids=CHOOSERS)
@pytest.mark.parametrize(
    ("days_ago", "hour", "wrong"),
    [
        pytest.param(0, 13, False, id="an hour ahead, as clocks may be"),
        pytest.param(0, 14, True, id="later on this day"),
        pytest.param(-30, 1, True, id="in a month"),
    ],
)
def test_one_dated_in_the_future_is_not_the_newest(choose_one, days_ago, hour, wrong):
    store = MemoryStore("clocks")
    right = stored_day(store, NOON, 3)
    ahead = stored_day(store, NOON, days_ago, hour=hour)
    assert choose_one(store) == (right if wrong else ahead)
    assert find_snapshot(store, ahead.snapshot_id, now=NOON) == ahead
    assert newest_snapshot(store, "alpha", ahead.date, now=NOON) == ahead, "its date was named"


def test_those_passed_over_for_their_date_are_told(caplog):
    store = MemoryStore("clocks")
    ahead = [stored_day(store, NOON, days_ago) for days_ago in (-30, -29)]
    damaged, right = stored_day(store, NOON, 2), stored_day(store, NOON, 3)
    store.put(damaged.key, b"{")
    assert find_snapshot(store, "newest", now=NOON) == right
    assert all(each.uri in caplog.text for each in (*ahead, damaged))
    with pytest.raises(ObjectDamagedError, match=damaged.uri):  # whose date is the newest that there can be
        newest_snapshot(store, "alpha", now=NOON)


@pytest.mark.parametrize("choose_one", list(CHOOSERS.values())[:2], ids=list(CHOOSERS)[:2])
def test_without_any_other_one_the_newest_is_not_known(choose_one):
    store = MemoryStore("clocks")
    ahead = [stored_day(store, NOON, days_ago) for days_ago in (-30, -29)]
    with pytest.raises(
        ObjectMissingError, match=rf"{ahead[0].uri}.*found 2026-07-30T01:00:00\+00:00, a date in the future"
    ):
        choose_one(store)


def test_newest_without_a_cluster_needs_a_store_of_one(store):
    with pytest.raises(BadInputError, match=r"found 2 clusters.*alpha; beta.*--cluster"):
        find_snapshot(store, "newest")
    for key in store.list("v1/cluster=beta/"):
        store.delete(key)
    assert find_snapshot(store, "newest").snapshot_id == ALPHA.snapshot_id


def test_a_damaged_snapshot_beside_a_good_one_of_its_day_is_passed_over_and_told(store, caplog, tmp_path):
    publish(LATER, store)
    key = damage(store, LATER)
    choice = choose(store, DAY)
    assert [manifest.snapshot_id for manifest in choice.snapshots] == [ALPHA.snapshot_id]
    assert key in caplog.text
    analyse.stage(store, choice.snapshots, tmp_path, run_id="r", day=DAY)
    (problem,) = json.loads((tmp_path / "problems.json").read_text())
    assert (problem["cluster"], problem["date"], key in problem["reason"]) == ("alpha", str(DAY), True)


def test_the_next_day_tells_of_it_too(store, tmp_path):
    publish(LATER, store)
    key = damage(store, LATER)
    tomorrow = ALPHA.on(-1)
    staged = analyse.stage(store, [publish(tomorrow, store)], tmp_path, run_id="r", day=tomorrow.day)
    (problem,) = json.loads((tmp_path / "problems.json").read_text())
    assert (problem["date"], key in problem["reason"]) == (str(DAY), True)
    assert staged.row_count == 4, "the good one of that date is in the history"


def test_the_history_of_a_topic_passes_over_what_cannot_be_read(store):
    moved = publish(replace(LATER, partitions=(("t", 0, (2,), 2, (2,)),)), store)
    key = damage(store, ALPHA.on(2))
    table = publish(ALPHA.on(-1), store).object("topics").key
    store.put(table, b"PAR1 no longer")
    report = blame(store, "alpha", "t")
    assert (report.snapshot_count, report.since) == (3, ALPHA.on(1).taken_at)
    replicas = next(each.history for each in report.blames if each.field == "replicas of 0")
    assert [(seen.value, seen.snapshot_id) for seen in replicas] == [
        ([2], moved.snapshot_id),
        ([1], ALPHA.on(1).snapshot_id),
    ]
    told = [line for line in blame_text(report).splitlines() if line.startswith("passed over: ")]
    assert [key in told[0], table in told[1]] == [True, True]


def test_a_history_without_any_readable_snapshot_names_them(store):
    key = damage(store, BETA.on(2))
    with pytest.raises(ObjectDamagedError, match=f"found 1 that cannot.*{key}"):
        blame(store, "beta", "t")


def test_an_earlier_day_that_cannot_be_read_is_named_and_the_others_are_staged(store, tmp_path):
    key = damage(store, ALPHA.on(1))
    staged = analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r", day=DAY)
    (problem,) = json.loads((tmp_path / "problems.json").read_text())
    assert (problem["cluster"], problem["date"]) == ("alpha", "2026-11-19")
    assert key in problem["reason"]
    days = sorted(path.parent.parent.name for path in tmp_path.rglob("manifest.json"))
    assert days == ["date=2026-11-18", "date=2026-11-20"]
    assert staged.row_count == 2


def inputs(folder):
    """Cluster and date of each snapshot that the job is given."""
    flag, *paths = (folder / "inputs").read_text().splitlines()
    assert flag == "--input"
    return sorted(tuple(step.partition("=")[2] for step in path.split("/")[-3:-1]) for path in paths)


def test_a_folder_that_is_used_again_gives_the_job_nothing_of_the_time_before(store, tmp_path):
    before = analyse.stage(store, choose(store, BETA.on(2).day).snapshots, tmp_path, run_id="before")
    assert inputs(tmp_path) == [("alpha", "2026-11-18"), ("beta", "2026-11-18")]
    stale = tmp_path / "output" / "plans" / "alpha.plan.json"
    stale.parent.mkdir()
    stale.write_text("{}")
    staged = analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r", history_days=2)
    assert inputs(tmp_path) == [("alpha", "2026-11-19"), ("alpha", "2026-11-20")]
    assert (staged.output, stale.parent.exists()) == (before.output, False)


@pytest.mark.parametrize("name", ["output/summary.json", "settings.json"])
def test_a_folder_with_somebodys_files_is_refused_and_stays(store, tmp_path, name):
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("my own")
    with pytest.raises(BadInputError, match="name another folder"):
        analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [own]
    assert own.read_text() == "my own"


@pytest.mark.parametrize("taken", ["input", "compact.json"])
def test_a_folder_that_takes_no_more_is_named(store, tmp_path, taken):
    """Else the message would be the system's alone, which leaves open whether it is the store's disk that is full."""
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / ".kafka-maintenance").touch()
    (tmp_path / taken).touch() if taken == "input" else (tmp_path / taken).mkdir()
    with pytest.raises(OSError, match=f"not written below {tmp_path}, a folder of this machine.*make room"):
        analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r")


def test_what_failed_runs_left_is_removed_after_a_while(store, tmp_path):
    for run in ("failed", "young"):
        analyse.stage(store, choose(store, DAY).snapshots, tmp_path / run, run_id=run)
    (tmp_path / "own" / "output").mkdir(parents=True)
    for old in ("failed", "own"):
        for path in (*(tmp_path / old).rglob("*"), tmp_path / old):
            os.utime(path, (0, 0))
    long_ago = datetime.now(UTC) - timedelta(days=2)
    assert analyse.remove_abandoned(tmp_path, long_ago) == [tmp_path / "failed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "young"]


def test_a_job_that_works_in_place_finds_nothing_of_an_attempt_before_and_removes_what_runs_of_long_ago_left(
    store, tmp_path
):
    today, yesterday, long_ago = (datetime.now(UTC).date() - timedelta(days=days) for days in (0, 1, 8))

    def left(run, day):
        return f"{analyse.UNPUBLISHED}date={day}/run={run_token(run)}/plans/alpha.plan.json"

    others = [left("s", day) for day in (yesterday, today)]
    for key in (left("r", yesterday), left("r", today), *others, left("failed", long_ago)):
        store.put(key, b"{}")
    staged = analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r", in_place=True)
    assert list(store.list(analyse.UNPUBLISHED)) == others
    assert f"/unpublished/date={today}/run={run_token('r')}" in staged.output


def test_the_job_is_given_no_snapshot_that_could_not_be_fetched(store, tmp_path):
    choice = choose(store, DAY)
    analyse.stage(store, choice.snapshots, tmp_path, run_id="before", history_days=1)
    (manifest,) = choice.snapshots
    for path in (tmp_path / "input").rglob("topics.parquet"):
        path.unlink()
    store.put(manifest.object("topics").key, b"PAR1 no longer")
    analyse.stage(store, choice.snapshots, tmp_path, run_id="r")
    assert inputs(tmp_path) == [("alpha", "2026-11-18"), ("alpha", "2026-11-19")]
    analyse.stage(store, choice.snapshots, tmp_path, run_id="r", history_days=1)
    assert not Path((tmp_path / "inputs").read_text().splitlines()[1]).exists()


@pytest.mark.parametrize("days_ago", [0, 1], ids=["the date", "a date before"])
def test_an_older_snapshot_of_the_date_takes_the_place_of_one_with_a_damaged_table(store, tmp_path, days_ago):
    newest = publish(LATER.on(days_ago), store)
    store.put(newest.object("partitions").key, b"PAR1 no longer")
    analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r", history_days=2)
    assert inputs(tmp_path) == [("alpha", "2026-11-19"), ("alpha", "2026-11-20")]
    (problem,) = json.loads((tmp_path / "problems.json").read_text())
    assert (problem["snapshot_id"], problem["date"]) == (newest.snapshot_id, newest.date)
    assert newest.snapshot_id not in (tmp_path / "inputs").read_text()


def test_a_job_that_works_in_place_is_given_what_takes_the_place_of_a_damaged_snapshot(store, tmp_path):
    early = replace(LATER, zxid=LATER.zxid + 1, time_of_day=time(1, 0))
    for world in (LATER, early):
        publish(world, store)
    analyse.stage(store, choose(store, DAY).snapshots, tmp_path, run_id="r", history_days=1, in_place=True)
    ids = [path.rpartition("=")[2] for path in (tmp_path / "inputs").read_text().splitlines()[1:]]
    assert ids == [ALPHA.snapshot_id, early.snapshot_id, LATER.snapshot_id]
