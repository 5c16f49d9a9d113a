"""The date of a run."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from datetime import date
from types import SimpleNamespace

import pytest

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.tasks.common import day_of

assert airflow_home


def run_of(key):
    return {"dag_run": SimpleNamespace(dag_id="nightly_analysis", run_id="manual__a", partition_key=key)}


def test_the_date_of_a_run_is_its_partition_key():
    assert day_of(run_of("2026-11-21|blue")) == date(2026, 11, 21)


@pytest.mark.parametrize("key", ["21.11.2026", "yesterday", "2026-02-30"])
def test_a_partition_key_that_is_no_date_is_bad_input_which_is_not_tried_again(key):
    with pytest.raises(BadInputError, match=f"run 'manual__a' of nightly_analysis not begun: .*found '{key}'"):
        day_of(run_of(key))
