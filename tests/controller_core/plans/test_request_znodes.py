"""Requests as Kafka's own tools write them, in batches that a znode can hold."""

import json

import pytest

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.document import decoded, encoded
from controller_core.plans.request_znodes import (
    REQUEST_BYTES_MAX,
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    LeaderMove,
    MoveLeaders,
    Request,
    Target,
    election_batches,
    may_be_asked_twice,
    named_once,
    render_request,
    request_brokers,
    request_data,
    request_path,
    request_targets,
    target_batches,
)
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1

REQUESTS = [
    pytest.param(
        CreateReassignPartitions(targets=(Target(*A0, ids(3, 2)), Target(*A1, ids(1)))),
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2]},'
        b'{"topic":"a","partition":1,"replicas":[1]}]}',
        "create   /admin/reassign_partitions  if absent, 2 partitions\n"
        "         a-0  replicas=3,2\n"
        "         a-1  replicas=1",
        id="reassignment",
    ),
    pytest.param(
        CreatePreferredReplicaElection.of((A0, A1)),
        "/admin/preferred_replica_election",
        b'{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"a","partition":1}]}',
        "create   /admin/preferred_replica_election  if absent, 2 partitions\n         a-0\n         a-1",
        id="preferred election",
    ),
    pytest.param(
        CreateDeleteTopic(topic="a"),
        "/admin/delete_topics/a",
        b"",
        "create   /admin/delete_topics/a  if absent",
        id="deletion",
    ),
    pytest.param(
        DeleteController(controller_id=BrokerId(1), version=0, epoch_version=7),
        "/controller",
        b"",
        "delete   /controller  of broker 1, if version=0 and /controller_epoch is at version=7",
        id="forced re-election",
    ),
]


@pytest.mark.parametrize(("request_", "path", "data", "text"), REQUESTS)
def test_a_request_is_what_kafkas_tools_write(request_, path, data, text):
    assert (request_path(request_), request_data(request_), render_request(request_)) == (path, data, text)


@pytest.mark.parametrize(("request_", "path", "data", "text"), REQUESTS)
def test_a_request_survives_json(request_, path, data, text):
    document = json.loads(encoded(request_))
    assert document["effect"] == type(request_).__name__
    assert decoded(json.dumps(document).encode(), Request, "effect") == request_


@pytest.mark.parametrize("cut", [election_batches, target_batches], ids=["elections", "targets"])
def test_batches_keep_order_and_count(cut):
    rows = [A0, A1, TopicPartition("b", 0)]
    given = rows if cut is election_batches else [Target(*row, ids(1, 2)) for row in rows]
    assert list(cut(given, partition_count_max=2)) == [tuple(given[:2]), tuple(given[2:])]
    assert list(cut([], partition_count_max=2)) == []


@pytest.mark.parametrize("kind", [CreatePreferredReplicaElection, CreateReassignPartitions])
def test_no_batch_is_larger_than_a_znode_may_be(kind):
    rows = [TopicPartition("é" * 120, number) for number in range(7000)]
    if kind is CreatePreferredReplicaElection:
        requests = [kind.of(batch) for batch in election_batches(rows, partition_count_max=10_000)]
    else:
        targets = [Target(*row, ids(1, 2, 3)) for row in rows]
        requests = [kind(targets=batch) for batch in target_batches(targets, partition_count_max=10_000)]
    sizes = [len(request_data(request)) for request in requests]
    assert len(sizes) > 1
    assert max(sizes) <= REQUEST_BYTES_MAX
    assert sizes[0] > REQUEST_BYTES_MAX - 1000


@pytest.mark.parametrize(
    ("request_", "again"),
    [
        pytest.param(CreateReassignPartitions(targets=()), False, id="a reassignment may have been cancelled"),
        pytest.param(CreateDeleteTopic(topic="t"), False, id="a deletion may have been withdrawn"),
        pytest.param(CreatePreferredReplicaElection.of(()), True, id="an election was an attempt"),
        pytest.param(
            DeleteController(controller_id=BrokerId(1), version=0, epoch_version=1), True, id="a controller is named"
        ),
    ],
)
def test_only_what_nobody_can_have_withdrawn_is_asked_twice(request_, again):
    assert may_be_asked_twice(request_) is again


TO_A0 = Target(*A0, ids(3, 2))


@pytest.mark.parametrize(
    ("request_", "once", "targets", "brokers"),
    [
        pytest.param(
            CreateReassignPartitions(targets=(TO_A0, Target(*A1, ids(1)))),
            (),
            (TO_A0, Target(*A1, ids(1))),
            ids(1, 2, 3),
            id="a partition may move again in a later wave",
        ),
        pytest.param(CreatePreferredReplicaElection.of((A0, A1)), (A0, A1), (), (), id="an election"),
        pytest.param(CreateDeleteTopic(topic="a"), ("a",), (), (), id="a deletion"),
        pytest.param(
            DeleteController(controller_id=BrokerId(1), version=0, epoch_version=7),
            ("/controller",),
            (),
            (),
            id="a forced re-election",
        ),
        pytest.param(
            MoveLeaders(moves=(LeaderMove(*A0, BrokerId(2)), LeaderMove(*A1, BrokerId(2)))),
            ("/controller",),
            (),
            ids(2),
            id="a move of leaders",
        ),
    ],
)
def test_a_request_says_what_it_names_and_asks_of_brokers(request_, once, targets, brokers):
    assert (named_once(request_), request_targets(request_)) == (once, targets)
    assert request_brokers(request_) == frozenset(brokers)
