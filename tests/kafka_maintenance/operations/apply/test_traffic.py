"""An approved move on real brokers while applications write and read; `traffic_matrix` has all disturbances."""

import pytest

from kafka_maintenance.operations.apply.execution import Road
from tests.kafka_maintenance.operations.apply.traffic_matrix import rows_of, told
from tests.kafka_versions import kafka_versions

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", kafka_versions("3.9"))
def test_nothing_is_lost_or_written_twice_when_a_broker_of_the_wave_dies(version):
    (row,) = rows_of(version, Road.REQUEST_ZNODES, ["a broker of the wave dies"], told)
    assert row.acknowledged > 0
    assert (row.lost, row.twice or 0, row.exceptions) == (0, 0, 0)
