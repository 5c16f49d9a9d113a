"""What real brokers live through under Kafka's own controller and under the core ends alike: tree, metadata, messages.

CI runs a few scenarios of one version; `make fidelity` all of `VERSIONS`, by `python -m tests.differential.scenario_table`.
"""

import pytest

from tests.differential.live_scenarios import FILES, differences, run
from tests.differential.live_worlds import under_kafkas, under_the_core

VERSION = "3.9"
USUAL = ("reassignment_waits_for_a_dead_broker", "unclean_election_by_the_brokers_config")


@pytest.mark.kafka
def test_scenarios_end_alike_under_both_controllers() -> None:
    files = [path for path in FILES if path.stem in USUAL]
    with under_kafkas(VERSION) as world:
        kafkas = [run(world, path) for path in files]
    with under_the_core(VERSION) as world:
        ours = [run(world, path) for path in files]
    found = {path.stem: differences(there, here) for path, there, here in zip(files, kafkas, ours, strict=True)}
    assert found == {name: [] for name in USUAL}
    assert all(each.acknowledged > 0 for each in (*kafkas, *ours))
