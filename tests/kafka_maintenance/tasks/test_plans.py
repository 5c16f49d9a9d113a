"""What the planning tasks make of what other tasks hand them."""

import pytest

from kafka_maintenance.operations.errors import BadInputError


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param("s3://backups/v1/cluster=alpha/date=2026-11-20/snap=a/manifest.json", id="the address of 0.1"),
        pytest.param({"date": "2026-11-20", "snapshot": "a", "cluster": "beta"}, id="of another cluster"),
    ],
)
def test_a_snapshot_that_is_not_named_as_its_task_does_is_refused(snapshot):
    from kafka_maintenance.tasks.plans import plan_elections

    with pytest.raises(
        BadInputError, match=r"expected date and id of a snapshot .* start a new run; or its output was edited"
    ):
        plan_elections.function("alpha", snapshot, None, 10, 1000)
