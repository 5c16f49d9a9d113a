"""The stack that the tests of this folder share, and what it has done before them."""

from datetime import UTC, datetime

import psutil
import pytest

from kafka_maintenance.servers.ports import listens
from tests.dags.live.spark_job import detached_submit
from tests.dags.live.stack import first_scheduled_snapshot, started
from tests.processes import command_of


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """The whole stack, started once for all tests that need it; where it is stopped, nothing of its Airflow goes on."""
    gated = {"elect_preferred_leaders", "reassign_partitions", "delete_topics", "nightly_analysis"}
    running = started(frozenset(gated), {"PATH": detached_submit(tmp_path_factory.mktemp("bin"))})
    yield running
    children, port = psutil.Process().children(recursive=True), running.stack.airflow.port
    running.stack.stop()
    assert (listens(port), [child for child in children if "airflow" in command_of(child)]) == (False, [])


@pytest.fixture(scope="session")
def scheduled_snapshot(live):
    """Id of a run of `snapshot_metadata` that its schedule started."""
    return first_scheduled_snapshot(live)


@pytest.fixture(scope="session")
def analysed(live, scheduled_snapshot):
    """Id of a run of `nightly_analysis` for today."""
    today = datetime.now(UTC).date().isoformat()
    run_id = live.start("nightly_analysis", {"alarm_severity": "none"}, partition_key=today)
    live.succeed("nightly_analysis", run_id)
    return run_id
