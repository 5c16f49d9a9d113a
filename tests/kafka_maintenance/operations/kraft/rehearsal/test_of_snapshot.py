"""What is looked at before a rehearsal starts a server."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.demo.sample_history import CLUSTER, copy_into
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.asked import NoBrokerAnsweredError
from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import RealBrokers, rehearse_snapshot
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot

NOBODY = BrokersAsked("127.0.0.1:1", {"bootstrap_timeout_ms": 500})


@pytest.mark.parametrize(
    ("quorum", "options", "error", "said"),
    [
        pytest.param(Quorum(version="3.5"), {}, BadInputError, "expected a Kafka version of 3.6", id="a version that does not migrate"),
        pytest.param(Quorum(), {"brokers": NOBODY}, NoBrokerAnsweredError, "readiness for KRaft asked of the brokers at 127.0.0.1:1", id="nobody answers"),
        pytest.param(Quorum(), {"real": RealBrokers(99)}, BadInputError, "expected at most 4 real brokers", id="more real brokers than there are"),
    ],
)  # fmt: skip
def test_what_cannot_be_rehearsed_is_refused_at_once(quorum, options, error, said):
    store = MemoryStore("x")
    copy_into(store)
    with pytest.raises(error, match=said):
        rehearse_snapshot(store, newest_snapshot(store, CLUSTER), quorum, **options)
