"""What monitoring is told: the values of each cluster, as text that a reader of OpenMetrics accepts."""

import json
from datetime import UTC, datetime

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from controller_core.adapters.object_store.open import open_store
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.analysis import metrics
from kafka_maintenance.operations.analysis.alarms import acknowledge
from tests.kafka_maintenance.web.fleet import Sick, publish, today

CALM = Sick("calm", migrating=True)
BROKEN = Sick("broken", brokers=4, critical=2, warnings=1, queued=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = open_store(str(tmp_path_factory.mktemp("metrics")))
    publish(store, [CALM, BROKEN], dates=2, snapshots=2)
    return store


@pytest.fixture(scope="module")
def values(store):
    """(metric, cluster, severity) → value, as a reader of OpenMetrics finds them."""
    found = {}
    for family in text_string_to_metric_families(metrics.openmetrics(metrics.samples(store))):
        assert family.documentation == metrics.METRICS[family.name.removeprefix(metrics.PREFIX)]
        for sample in family.samples:
            key = (family.name.removeprefix(metrics.PREFIX), sample.labels["cluster"], sample.labels.get("severity"))
            assert key not in found
            found[key] = sample.value
    return found


def test_every_metric_has_a_value_for_a_cluster(values):
    assert {metric for metric, cluster, _ in values if cluster == "broken"} == set(metrics.METRICS)


@pytest.mark.parametrize(
    ("metric", "severity", "calm", "broken"),
    [
        ("ActiveControllerCount", None, 1, 1),
        ("OfflinePartitionsCount", None, 0, 2),
        ("UnderReplicatedPartitions", None, 0, 1),
        ("GlobalTopicCount", None, 4, 4),
        ("GlobalPartitionCount", None, 24, 24),
        ("ActiveBrokerCount", None, 3, 4),
        ("PreferredReplicaImbalanceCount", None, 4, 4),
        ("TopicsToDeleteCount", None, 0, 1),
        ("TopicsIneligibleToDeleteCount", None, 0, 1),
        ("ReplicasIneligibleToDeleteCount", None, 0, 1),
        ("findings", "critical", 0, 2),
        ("findings_unacknowledged", "critical", 0, 2),
        ("findings_unacknowledged", "warning", 1, 2),
        ("plan_moves", None, 12, 12),
        ("plan_gap", None, 0, 0),
        ("snapshot_consistent", None, 1, 1),
    ],
)
def test_the_values_of_each_cluster(values, metric, severity, calm, broken):
    assert (values[metric, "calm", severity], values[metric, "broken", severity]) == (calm, broken)


def test_the_timestamps_are_those_of_analysis_and_snapshot(store, values):
    from kafka_maintenance.operations.analysis.overviews import require_overview
    from kafka_maintenance.operations.snapshots.catalog import newest_snapshot

    assert values["analysis_timestamp_seconds", "calm", None] == require_overview(store).created_at.timestamp()
    assert values["snapshot_timestamp_seconds", "calm", None] == newest_snapshot(store, "calm").taken_at.timestamp()


def test_what_is_acknowledged_rings_no_more(tmp_path):
    store = open_store(str(tmp_path))
    publish(store, [BROKEN], dates=1, snapshots=1)
    known = {"topic": None, "reason": "r", "by": "ann", "until": today(), "now": datetime.now(UTC)}
    acknowledge(store, "broken", "offline", **known)
    found = {each.metric: each.value for each in metrics.samples(store) if each.severity == "critical"}
    assert found == {"findings": 2, "findings_unacknowledged": 0}


def test_a_cluster_whose_snapshots_cannot_be_read_keeps_the_rest(tmp_path):
    store = open_store(str(tmp_path))
    publish(store, [CALM], dates=1, snapshots=1)
    for key in store.list("v1/cluster=calm/"):
        if key.endswith("manifest.json"):
            store.delete(key)
            store.put(key, b"{")
    found = {sample.metric for sample in metrics.samples(store)}
    assert set(metrics.METRICS) - found == {"snapshot_timestamp_seconds", "snapshot_consistent"}


def test_nothing_published_says_what_to_run(tmp_path):
    with pytest.raises(ObjectMissingError, match=r"run nightly_analysis, or `kafka-maintenance analyse`"):
        metrics.samples(open_store(str(tmp_path)))


def test_the_command_prints_the_text_and_replaces_a_file_as_a_whole(store, tmp_path, capsys):
    folder = store.uri.removeprefix("file://")
    assert main(["metrics", "--store", folder]) == 0
    text = capsys.readouterr().out
    assert text.endswith("# EOF\n")
    output = tmp_path / "textfile" / "kafka.prom"
    assert main(["--json", "metrics", "--store", folder, "--output", str(output)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert output.read_text() == text
    assert [path.name for path in output.parent.iterdir()] == ["kafka.prom"]
    assert {"metric": "OfflinePartitionsCount", "cluster": "broken", "value": 2} in document["samples"]


def test_a_run_of_one_cluster_takes_no_other_one_from_its_date(tmp_path):
    store = open_store(str(tmp_path))
    publish(store, [CALM, BROKEN], dates=1)
    before = [each for each in metrics.samples(store) if each.cluster == BROKEN.name]
    publish(store, [CALM], dates=1, snapshots=0, run="z_of_calm_alone")
    assert [each for each in metrics.samples(store) if each.cluster == BROKEN.name] == before
