"""What the brokers' answers to a request mean, partition by partition."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.cluster import admin_requests
from kafka_maintenance.operations.cluster.admin_requests import UnansweredError, elect_preferred_leaders
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked

A0 = TopicPartition("a", 0)


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, response: Any) -> Iterator[None]:
    """Brokers that answer each election so."""

    @contextmanager
    def client(*_: Any) -> Iterator[Any]:
        yield Answer(elect_leaders=lambda *_, **__: response)

    with monkeypatch.context() as patched:
        patched.setattr(admin_requests, "admin_client", client)
        yield


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        pytest.param(0, {}, id="elected"),
        pytest.param(84, {}, id="led by it already"),
        pytest.param(7, {}, id="elected, and the broker has not heard of it in time"),
        pytest.param(80, {A0: "PreferredLeaderNotAvailableError"}, id="not available"),
        pytest.param(None, {A0: "no answer"}, id="nothing said of it"),
    ],
)
def test_what_an_answer_to_an_election_means(monkeypatch, code, refused):
    rows = [] if code is None else [Answer(partition_id=0, error_code=code)]
    results = [Answer(topic="a", partition_result=rows)]
    with answering(monkeypatch, Answer(error_code=0, replica_election_results=results)):
        assert elect_preferred_leaders(BrokersAsked("b1:9092"), [A0], "an election") == refused


def test_a_request_that_fails_as_a_whole_is_no_answer(monkeypatch):
    with answering(monkeypatch, Answer(error_code=7, replica_election_results=[])), pytest.raises(UnansweredError):
        elect_preferred_leaders(BrokersAsked("b1:9092"), [A0], "an election")
