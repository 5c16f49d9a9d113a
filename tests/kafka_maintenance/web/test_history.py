"""The page History: the failure drill of the date that is picked, and the trend of any number of the stored tables."""

from datetime import date, timedelta

import pyarrow.parquet as pq
import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot.parquet import table_to_parquet
from controller_core.adapters.snapshot.tables import TABLES
from kafka_maintenance.demo.sample_history import CLUSTER, DAYS, copy_into
from kafka_maintenance.operations.analysis.overviews import PREFIX
from kafka_maintenance.operations.snapshots.catalog import keys_by_date, newest_of, read_table
from kafka_maintenance.spark import submit
from kafka_maintenance.web.blocks import Figure
from kafka_maintenance.web.views.cluster import cluster_page
from kafka_maintenance.web.views.history import NOT_SEEN, Asked, history_page
from kafka_maintenance.web.views.trend import Measure
from tests.kafka_maintenance.snapshot_world import NOON, stored_day
from tests.kafka_maintenance.web.fleet import Sick, publish_date, today

BEFORE, UNANALYSED, NEWEST = map(str, DAYS[-3:])


@pytest.fixture
def store(tmp_path):
    """The recorded snapshots; of two dates there is an analysis, in the newer of which broker 1 hurts."""
    store = open_store(str(tmp_path))
    copy_into(store)
    for day, critical in ((BEFORE, 0), (NEWEST, 3)):
        back = (today() - date.fromisoformat(day)).days
        publish_date(store, [Sick(CLUSTER, critical=critical)], back)
    return store


def blocks(store, anchor, *, sees_analyses=True, **asked):
    page = history_page(store, [CLUSTER], Asked(CLUSTER, **asked), sees_analyses=sees_analyses)
    (section,) = (each for each in page.sections if each.anchor == anchor)
    return section.blocks


@pytest.mark.parametrize(("day", "offline"), [(NEWEST, 3), (BEFORE, 0)])
def test_the_failure_drill_is_that_of_the_picked_date_and_that_of_the_page_cluster(store, day, offline):
    note, figure = blocks(store, "drill", after=day)
    assert day in note.text
    assert f"broker 1 takes {offline} partitions offline" in figure.says
    page = cluster_page(store, CLUSTER, date=day)
    assert [figure] == [each for section in page.sections for each in section.blocks if each == figure]
    assert isinstance(figure, Figure)


def test_a_date_without_an_analysis_says_what_to_run(store):
    (note,) = blocks(store, "drill", after=UNANALYSED)
    assert note.text == f"No published analysis has {CLUSTER} on {UNANALYSED}: run nightly_analysis for it."


def test_who_may_not_see_analyses_sees_no_drill(store):
    (note,) = blocks(store, "drill", sees_analyses=False)
    assert note.text == NOT_SEEN


def test_a_damaged_overview_is_told_and_the_rest_of_the_page_is_there(store):
    store.put(store.list(PREFIX)[-1], b"{")
    (note,) = blocks(store, "drill")
    assert (note.tone, "expected the counts of an analysis" in note.text) == ("warning", True)
    assert blocks(store, "diff")[-1].id == "changes"


@pytest.mark.parametrize("content", [None, b"{"], ids=["gone", "torn"])
@pytest.mark.parametrize(
    ("pattern", "anchor"),
    [
        (f"cluster=*/date={NEWEST}/*/raw.parquet", "diff"),
        (f"analysis/date={NEWEST}/*/manifest.json", "trend-section"),
        (f"analysis/date={NEWEST}/*/failure_drill.parquet", "drill"),
    ],
)
def test_what_is_damaged_takes_its_own_section_and_the_forms_stay(store, tmp_path, pattern, content, anchor):
    (path,) = tmp_path.glob(f"v1/{pattern}")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    page = history_page(store, [CLUSTER, "other"], Asked(CLUSTER, subject="orders"), sees_analyses=True)
    assert [name for name, _ in page.head[0].fields[0].choices] == [CLUSTER, "other"]
    assert [each.anchor for each in page.sections if getattr(each.blocks[0], "tone", None) == "warning"] == [anchor]


def test_a_drill_without_a_column_takes_its_own_section(store, tmp_path):
    (path,) = tmp_path.glob(f"v1/analysis/date={NEWEST}/*/failure_drill.parquet")
    content = table_to_parquet(pq.read_table(path).drop_columns(["rank"]))
    path.unlink()
    path.write_bytes(content)
    (note,) = blocks(store, "drill")
    assert "found KeyError: 'rank'; restore its objects" in note.text
    assert blocks(store, "diff")[-1].id == "changes"


@pytest.mark.parametrize("number", [2**31, 2**64, 10**200])
def test_a_number_that_no_partition_has_is_not_found(store, number):
    (note,) = blocks(store, "blame", subject=f"orders-{number}")
    assert f"orders-{number}' not found in" in note.text


def drawn(store, *measure):
    """The table of the trend, oldest first, and what is beside its figure."""
    form, *rest = blocks(store, "trend-section", trend=Measure(*measure))
    figure = next(each for each in rest if isinstance(each, Figure))
    assert {name: fields.value for fields in form.fields for name in [fields.name]} == Measure(*measure)._asdict()
    return [[cell.text for cell in row] for row in figure.table.rows[::-1]], [each for each in rest if each != figure]


def of_snapshots(store, value):
    """What `value` makes of the table `partitions` of each date."""
    return [
        [day, value(read_table(store, newest_of(store, keys), "partitions").to_pylist())]
        for day, keys in sorted(keys_by_date(store, CLUSTER).items())
    ]


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (("rows", "sum"), len),
        (("leader_epoch", "sum"), lambda rows: sum(row["leader_epoch"] or 0 for row in rows)),
        (("leader_epoch", "largest"), lambda rows: max(row["leader_epoch"] for row in rows)),
        (("leader", "smallest"), lambda rows: min(row["leader"] for row in rows if row["leader"] is not None)),
        (("preferred_leader", "distinct values"), lambda rows: len({row["preferred_leader"] for row in rows})),
    ],
)
def test_a_column_of_the_snapshots_is_drawn_over_all_dates_and_no_spark_is_started(store, measure, value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submit, "run_job", None)
        rows, beside = drawn(store, "partitions", *measure)
    assert rows == [[day, str(number)] for day, number in of_snapshots(store, value)]
    assert len({number for _, number in rows}) > 1 or measure[0] == "preferred_leader"
    assert beside == []


@pytest.mark.parametrize(
    ("measure", "values"),
    [
        (("failure_drill", "offline_count", "sum"), ["0", "6"]),
        (("failure_drill", "offline_count", "mean"), ["0", "2"]),
        (("broker_load", "live", "sum"), ["3", "3"]),
        (("imbalance", "ratio", "largest"), ["0.15", "0.15"]),
        (("findings", "rows", "sum"), ["0", "0"]),
        (("growth", "rows", "sum"), ["1", "1"]),
    ],
    ids="-".join,
)
def test_a_column_of_the_analyses_is_drawn_over_their_dates_and_of_several_dates_its_own_counts(store, measure, values):
    rows, _ = drawn(store, *measure)
    assert rows == [[BEFORE, values[0]], [NEWEST, values[1]]]


def test_the_columns_to_choose_are_the_numbers_of_the_table_and_the_choice_stays_in_both_forms(store):
    page = history_page(
        store, [CLUSTER], Asked(CLUSTER, trend=Measure("topics", "partition_count", "mean")), sees_analyses=True
    )
    dates, form = page.head[0], page.sections[-1].blocks[0]
    assert dates.hidden == {"table": "topics", "column": "partition_count", "how": "mean"}
    assert form.hidden == {"cluster": CLUSTER, "before": UNANALYSED, "after": NEWEST, "subject": ""}
    names = [name for name, _ in form.fields[1].choices]
    assert names == ["rows", "partition_count", "json_version", "znode_version", "czxid", "mzxid", "deletion_requested"]


def test_a_column_of_another_table_gives_the_number_of_rows_and_a_table_that_is_not_there_is_told(store):
    form, figure = blocks(store, "trend-section", trend=Measure("topics", "leader_epoch", "median"))
    assert [field.value for field in form.fields] == ["topics", "rows", "sum"]
    assert figure.title == "Rows of topics"
    form, note = blocks(store, "trend-section", trend=Measure("passwords"))
    assert note.text == "There is no table 'passwords' to choose."


def test_who_may_not_see_analyses_chooses_of_snapshots_alone(store):
    choices = {}
    for sees in (True, False):
        form, _ = blocks(store, "trend-section", sees_analyses=sees, trend=Measure())
        choices[sees] = {name for name, _ in form.fields[0].choices}
    assert choices[True] - choices[False] >= {"findings", "failure_drill"}
    assert choices[False] == {"", *TABLES}
    _, note = blocks(store, "trend-section", sees_analyses=False, trend=Measure("findings"))
    assert note.text == "There is no table 'findings' to choose."


def test_a_date_that_cannot_be_read_is_a_gap_and_is_named(store, tmp_path):
    (damaged,) = tmp_path.rglob(f"date={UNANALYSED}/*/partitions.parquet")
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    rows, (unread,) = drawn(store, "partitions", "leader_epoch", "sum")
    assert [day for day, value in rows if value == "-"] == [UNANALYSED]
    assert [line.partition(": ")[0] for line in unread.lines] == [UNANALYSED]


def test_a_table_without_any_value_says_so(store):
    _, note = blocks(store, "trend-section", trend=Measure("requests", "partition", "mean"))
    assert note.text == "No date has a value of it."


def test_a_date_in_the_future_is_compared_and_drawn_only_where_it_is_named(store):
    stored_day(store, NOON, -9000, cluster=CLUSTER)
    ahead = str((NOON + timedelta(days=9000)).date())
    page = history_page(store, [CLUSTER], Asked(CLUSTER), sees_analyses=True)
    assert [field.value for field in page.head[0].fields[1:3]] == [UNANALYSED, NEWEST]
    assert page.head[0].fields[1].choices[0] == (ahead, ahead)
    rows, beside = drawn(store, "partitions", "rows", "sum")
    assert (rows[-1][0], beside) == (NEWEST, [])
