"""The date of a run, and its name for what it reads anew."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import re
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pytest

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.tasks.common import beginning_name, day_of, is_beginning_of, refuse_misspelt, start_name

assert airflow_home


def run_of(key):
    return {"dag_run": SimpleNamespace(dag_id="nightly_analysis", run_id="manual__a", partition_key=key)}


def begun_at(hour, clears):
    """The context of a run that is due at one time, whenever it begins."""
    due, began = datetime(2026, 11, 21, 8, tzinfo=UTC), datetime(2026, 11, 21, hour, tzinfo=UTC)
    times = {"run_after": due, "start_date": began, "clear_number": clears}
    return {"dag_run": SimpleNamespace(dag_id="delete_topics", run_id="weekly", **times)}


def test_the_date_of_a_run_is_its_partition_key():
    assert day_of(run_of("2026-11-21|blue")) == date(2026, 11, 21)


@pytest.mark.parametrize("key", ["21.11.2026", "yesterday", "2026-02-30"])
def test_a_partition_key_that_is_no_date_is_bad_input_which_is_not_tried_again(key):
    with pytest.raises(BadInputError, match=f"run 'manual__a' of nightly_analysis not begun: .*found '{key}'"):
        day_of(run_of(key))


@pytest.mark.parametrize("said", ["soon", 5, None])
def test_an_event_of_the_asset_whose_date_is_none_is_bad_input(said):
    events = [SimpleNamespace(extra={"date": "2026-11-21"}), SimpleNamespace(extra={"date": said})]
    with pytest.raises(BadInputError, match=f"as the date of the newest event of .*found '{said}'"):
        day_of({**run_of(None), "triggering_asset_events": {"snapshots": events[said == 5 :]}})


def test_a_run_reads_anew_after_a_clear_and_where_it_was_made_again_under_its_id_and_not_in_a_retry():
    def named(hour, clears):
        return beginning_name(begun_at(hour, clears))

    assert named(9, 0) == named(9, 0) == "delete_topics.weekly.20261121T090000000000.1"
    assert len({named(9, 0), named(9, 1), named(10, 0)}) == 3


def test_a_stop_holds_for_retries_and_not_after_a_clear_or_for_a_run_that_was_made_again_under_its_id():
    def named(hour, tries):
        return start_name({**begun_at(hour, 0), "ti": SimpleNamespace(max_tries=tries)})

    assert named(9, 2) == named(9, 2)
    assert len({named(9, 2), named(9, 5), named(10, 2)}) == 3


@pytest.mark.parametrize(
    ("name", "own"),
    [
        pytest.param(beginning_name(begun_at(9, 0)), True, id="as it is named"),
        pytest.param(beginning_name(begun_at(10, 12)), True, id="after many clears"),
        pytest.param("delete_topics.weekly", True, id="by release 0.1"),
        pytest.param("delete_topics.weekly.2026-11-21", True, id="made again, by release 0.1"),
        pytest.param("delete_topics.weekly.2", False, id="another run"),
        pytest.param("delete_topics.weekly.2.20261121T090000000000.1", False, id="as another run is named"),
    ],
)
def test_what_a_run_made_under_its_names_is_its_own(name, own):
    assert is_beginning_of("delete_topics.weekly", name) == own


PARAMS = {
    "cluster": None,
    "plan": None,
    "move_count_max": 100,
    "rollback_of": None,
    "cancel_running": False,
    "requests": None,
}


def conf_of(**conf):
    run = SimpleNamespace(dag_id="reassign_partitions", run_id="manual__a", conf=conf)
    first = SimpleNamespace(upstream_task_ids=set())
    return {"dag_run": run, "dag": SimpleNamespace(params=PARAMS), "task": first}


def complaint_of(context):
    """What is said of a run that is not begun; None: it is."""
    try:
        refuse_misspelt(context)
    except BadInputError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        pytest.param("cancel_runing", "cancel_running", id="a letter is missing"),
        pytest.param("rollback-of", "rollback_of", id="a dash"),
        pytest.param("Plan", "plan", id="a capital"),
        pytest.param("move_count", "move_count_max", id="its beginning"),
        pytest.param("rolback", "rollback_of", id="its beginning, and a letter is missing"),
    ],
)
def test_a_run_whose_conf_almost_names_a_param_is_not_begun(key, meant):
    said = complaint_of(conf_of(cluster="blue", **{key: "x"}))
    assert re.search(f"'manual__a' of reassign_partitions not begun: .*found '{key}'.*'{meant}'", said)


def test_a_param_in_the_spelling_of_the_commands_option_is_told_too():
    said = complaint_of(conf_of(**{"even-if-used": True}) | {"dag": SimpleNamespace(params={"even_if_used": False})})
    assert re.search(r"found 'even-if-used'.*'even_if_used'", said)


def test_other_keys_of_a_conf_are_for_others():
    conf = {"cluster": "blue", "ticket": "OPS-1", "requester": "ann", "openlineage": {"parent": "x"}, "p": "1"}
    assert complaint_of(conf_of(**conf)) is None
    assert complaint_of({**conf_of(), "dag_run": SimpleNamespace(conf=None)}) is None


def test_what_is_begun_goes_on_where_an_upgrade_renamed_a_param():
    first = conf_of(moves_count_max=5)
    assert complaint_of(first) is not None
    assert complaint_of(first | {"task": SimpleNamespace(upstream_task_ids={"snapshot_to_plan"})}) is None
