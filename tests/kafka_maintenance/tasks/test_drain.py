"""One batch of clusters: each has its own tries, none waits for another, and the report says who is missing."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import threading
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from controller_core.model.errors import NoAuthError, ZooKeeperUnreachableError
from kafka_maintenance.connections.fields import SettingsMissingError

assert airflow_home

QUIET = SimpleNamespace(text="none wait", lingering=False, oldest=None, requests=())
STUCK = SimpleNamespace(text="one waits", lingering=True, oldest="isr_change_7", requests=())
ABANDONED = SimpleNamespace(text="a request", lingering=False, oldest=None, requests=("/admin/reassign_partitions",))


def test_a_dead_cluster_of_a_batch_is_tried_again_and_named_and_the_others_are_looked_at(monkeypatch):
    from kafka_maintenance.operations.cluster import isr_notifications
    from kafka_maintenance.tasks import drain

    others = threading.Event()
    answers = {
        "dead": [ZooKeeperUnreachableError("nobody answers")] * 2,
        "refused": [NoAuthError("refused us")],
        "shaky": [ZooKeeperUnreachableError("nobody answers"), STUCK],
        "quiet": [QUIET],
        "request": [ABANDONED],
    }

    def report(*, zookeeper, age_min_s):
        if zookeeper == "dead":
            assert others.wait(60), "the others wait for the dead one"
        answer = answers[zookeeper].pop(0)
        if not any(answers[name] for name in answers if name != "dead"):
            others.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cluster(name):
        if name == "unlisted":
            raise SettingsMissingError("not listed")
        return SimpleNamespace(address=name)

    labels = []
    monkeypatch.setattr(isr_notifications, "report", report)
    monkeypatch.setattr(drain.hooks, "cluster", cluster)
    monkeypatch.setattr(drain, "label", labels.append)
    found = drain.report_notifications.function([*answers, "unlisted"])
    assert found == {
        "lingering": {"shaky": "isr_change_7", "request": "reassign_partitions"},
        "missing": {"unlisted": "not listed", "dead": "nobody answers", "refused": "refused us"},
    }
    assert set(map(len, answers.values())) == {0}
    assert labels == ["dead to unlisted"]
    with pytest.raises(AirflowFailException, match=r"3 cluster\(s\) not looked at: unlisted: not listed; dead: nobody"):
        drain.all_clusters_reported.function([found, {"lingering": {}, "missing": {}}])
    drain.all_clusters_reported.function([{"lingering": {}, "missing": {}}])


def test_a_fleet_is_reported_in_batches(monkeypatch):
    from kafka_maintenance.tasks import common

    names = [f"c{number:03}" for number in range(120)]
    found = common.batches(names)
    assert [len(batch) for batch in found] == [50, 50, 20]
    assert [name for batch in found for name in batch] == names
