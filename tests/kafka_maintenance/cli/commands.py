"""What tests do with the command."""

from pathlib import Path

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.kafka_maintenance.kafka_world import KafkaWorld, three_brokers

TIMEOUT_S = 60


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of one command line."""
    status = main(list(arguments))
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    return status, printed.out, printed.err


def imbalanced(world: KafkaWorld) -> KafkaWorld:
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)))
    world.topic("old", ((1, 2), 1, (1, 2)))
    return world


@pytest.fixture
def stored(tmp_path: Path) -> StoredPlan:
    """A plan in a folder."""
    world = imbalanced(three_brokers())
    plan = plan_elections(open_store(str(tmp_path)), "demo", zookeeper=world.zookeeper())
    assert plan is not None
    return plan
