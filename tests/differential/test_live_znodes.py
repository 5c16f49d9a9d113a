"""Our codecs beside Kafka 3.9's own `ZkData`, called live: the same bytes written, the same damage refused."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from controller_core import znodes
from controller_core.model.errors import MalformedZnodeError, UnparsedZnodeError
from controller_core.model.partitions import (
    Broker,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from tests.differential.kafka_jvm import KafkaJvm, kafka_jvm

pytestmark = pytest.mark.kafka
TOPIC_ID = "3tRvjlrmRXmsYOMp9Fg0AA"
STATE, TOPIC, BROKER = "/brokers/topics/t/partitions/0/state", "/brokers/topics/t", "/brokers/ids/1"


@pytest.fixture(scope="module")
def kafka():
    with kafka_jvm() as jvm:
        yield jvm


def codec(kafka: KafkaJvm, name: str) -> Any:
    return getattr(getattr(kafka.java.kafka.zk, f"{name}$"), "MODULE$")


def some(draw: random.Random, most: int = 4) -> tuple[int, ...]:
    return tuple(draw.sample(range(10), draw.randint(0, most)))


@pytest.mark.parametrize("seed", range(40))
def test_topics_are_written_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    numbers = draw.sample(range(200), draw.choice([0, 1, 4, 5, 11, 12, 40]))
    ours = {number: ReplicaAssignment(some(draw), some(draw, 2), some(draw, 2)) for number in numbers}
    theirs = kafka.mapping({kafka.partition("t", number): kafka.assignment(*each) for number, each in ours.items()})
    for topic_id in (None, TOPIC_ID):
        option = kafka.java.scala.Option
        uuid = (
            option.apply(kafka.java.org.apache.kafka.common.Uuid.fromString(TOPIC_ID)) if topic_id else option.empty()
        )
        written = bytes(codec(kafka, "TopicZNode").encode(uuid, theirs))
        assert znodes.encode_topic(znodes.TopicZnode(ours, topic_id)) == written
        assert znodes.decode_topic(written, path=TOPIC) == znodes.TopicZnode(ours, topic_id)


@pytest.mark.parametrize("seed", range(20))
def test_states_are_written_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    leader, epoch, isr, controller_epoch = draw.randint(-1, 9), draw.randrange(99), some(draw), draw.randrange(99)
    recovery = draw.choice(list(LeaderRecoveryState))
    java_recovery = getattr(kafka.java.org.apache.kafka.metadata.LeaderRecoveryState, recovery.name)
    record = kafka.java.kafka.api.LeaderAndIsr.apply(leader, epoch, kafka.sequence(isr), java_recovery, 0)
    theirs = kafka.controller.LeaderIsrAndControllerEpoch(record, controller_epoch)
    ours = LeaderAndIsr(leader, epoch, isr, recovery, 0, controller_epoch)
    assert znodes.encode_state(ours) == bytes(codec(kafka, "TopicPartitionStateZNode").encode(theirs))


@pytest.mark.parametrize("seed", range(20))
def test_overrides_are_written_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    letters = 'az.-"\\/\x01\x1f\n\té€😀'
    config = {
        "".join(draw.choices("abcdefgh.", k=draw.randint(1, 12))): "".join(draw.choices(letters, k=draw.randint(0, 8)))
        for _ in range(draw.choice([0, 1, 5, 11, 12, 30]))
    }
    properties = kafka.java.java.util.Properties()
    for name, value in config.items():
        properties.setProperty(name, value)
    written = bytes(codec(kafka, "ConfigEntityZNode").encode(properties))
    assert znodes.encode_config(znodes.ConfigZnode(config)) == written


@pytest.mark.parametrize("rack", [None, "r1"])
def test_brokers_are_written_alike(kafka: KafkaJvm, rack: str | None) -> None:
    common = kafka.java.org.apache.kafka.common
    listener = common.network.ListenerName("CLIENT")
    protocol = common.security.auth.SecurityProtocol.SSL
    endpoints = kafka.sequence([kafka.java.kafka.cluster.EndPoint("::1", 9093, listener, protocol)])
    option = kafka.java.scala.Option
    features = common.feature.Features.emptySupportedFeatures()
    broker = kafka.java.kafka.cluster.Broker(1, endpoints, option.apply(rack) if rack else option.empty(), features)
    latest = kafka.java.org.apache.kafka.server.common.MetadataVersion.IBP_3_9_IV0
    info = getattr(getattr(kafka.java.kafka.zk, "BrokerInfo$"), "MODULE$").apply(broker, latest, 7)
    written = bytes(info.toJsonBytes())
    ours = znodes.decode_broker(written, path=BROKER)
    assert ours.broker == Broker(1, endpoints=(Endpoint("::1", 9093, "CLIENT", "SSL"),), rack=rack)
    assert znodes.encode_broker(ours) == written


# ---- damaged documents: read, taken for empty, or thrown at ----------------------------------------------------------

VALUES: list[Any] = [None, True, 0, 1, -1, 2, 2**31, 1.5, "", "1", "x", [], [1], [1, 2], ["1"], [2**40], {}, {"a": 1}]


def damaged(draw: random.Random, document: dict[str, Any]) -> bytes:
    """A document with fields missing, mistyped or added, sometimes cut, sometimes no object at all."""
    for _ in range(draw.randint(0, 2)):
        if document and draw.random() < 0.5:
            del document[draw.choice(list(document))]
        else:
            document[draw.choice([*document, "extra"])] = draw.choice(VALUES)
    text = json.dumps(draw.choice(VALUES) if draw.random() < 0.1 else document)
    return (text[: draw.randrange(len(text))] if text and draw.random() < 0.1 else text).encode()


def verdict(read: Callable[[], object]) -> str:
    try:
        read()
    except UnparsedZnodeError:
        return "empty"
    except MalformedZnodeError:
        return "throws"
    return "read"


def their_verdict(read: Callable[[], Any]) -> str:
    try:
        found = read()
    except Py4JJavaError:
        return "throws"
    return "read" if found.isDefined() else "empty"


@pytest.mark.parametrize("seed", range(150))
def test_damaged_states_are_refused_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    whole: dict[str, Any] = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]}
    if draw.random() < 0.3:
        whole["leader_recovery_state"] = draw.choice([0, 1, 2])
    data = damaged(draw, whole)
    stat = kafka.java.org.apache.zookeeper.data.Stat()
    theirs = their_verdict(lambda: codec(kafka, "TopicPartitionStateZNode").decode(data, stat))
    if data:  # no data at all is another matter for every version of Jackson
        assert verdict(lambda: znodes.decode_state(data, path=STATE, version=0)) == theirs, data


@pytest.mark.parametrize("seed", range(150))
def test_damaged_requests_are_refused_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2]}
    data = damaged(draw, {"version": 1, "partitions": [entry]}) if draw.random() < 0.5 else damaged_entry(draw, entry)
    module = codec(kafka, "ReassignPartitionsZNode")
    if not data:
        return
    try:
        found = module.decode(data)
    except Py4JJavaError:
        theirs: Any = "throws"
    else:
        theirs = targets_of(kafka, found) if found.isRight() else "empty"
    try:
        targets = znodes.decode_reassign_partitions(data)
        ours: Any = {str(partition): list(ids) for partition, ids in targets.items()}
    except UnparsedZnodeError:
        ours = "empty"
    except MalformedZnodeError:
        ours = "throws"
    assert ours == theirs, data


def damaged_entry(draw: random.Random, entry: dict[str, Any]) -> bytes:
    return b'{"version":1,"partitions":[' + damaged(draw, entry) + b"]}"


def targets_of(kafka: KafkaJvm, found: Any) -> dict[str, list[int]] | str:
    """What was bound; lists of what is no number, and topics that are null, throw as soon as they are looked at."""
    targets = {}
    for pair in kafka.values(found.toOption().get()):
        replicas = kafka.values(pair._2()) if pair._2() is not None else [None]
        if any(type(each) is not int or each >= 2**31 for each in replicas) or pair._1().topic() is None:
            return "throws"
        targets[pair._1().toString()] = replicas
    return targets


@pytest.mark.parametrize("seed", range(100))
def test_damaged_topics_are_refused_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    data = damaged(
        draw,
        {
            "version": 3,
            "partitions": {draw.choice(["0", "x", "00", "-1", "+1"]): draw.choice([[1, 2], [], [1.5], 1])},
            "topic_id": TOPIC_ID,
            "adding_replicas": {},
            "removing_replicas": draw.choice([{}, {"0": [1]}, {"9": "unused"}]),
        },
    )
    if not data:
        return
    try:
        codec(kafka, "TopicZNode").decode("t", data)
        theirs = "read"
    except Py4JJavaError:
        theirs = "throws"
    ours = verdict(lambda: znodes.decode_topic(data, path=TOPIC))
    assert ("read" if ours == "empty" else ours) == theirs, data  # malformed JSON reads as a topic without partitions


@pytest.mark.parametrize("seed", range(80))
def test_damaged_notifications_are_refused_alike(kafka: KafkaJvm, seed: int) -> None:
    draw = random.Random(seed)
    entry = {"topic": "t", "partition": 0}
    data = damaged(draw, {"version": 1, "partitions": [entry]}) if draw.random() < 0.5 else damaged_entry(draw, entry)
    if not data:
        return
    try:
        found = kafka.values(codec(kafka, "IsrChangeNotificationSequenceZNode").decode(data))
        theirs = sorted(each.toString() for each in found)
    except Py4JJavaError:
        theirs = "throws"
    try:
        read = znodes.decode_isr_change_notification(data, path="/isr_change_notification/isr_change_0000000000")
        ours: Any = sorted(map(str, read))
    except UnparsedZnodeError:
        ours = []
    except MalformedZnodeError:
        ours = "throws"
    assert ours == theirs, data


def test_requests_are_written_alike(kafka: KafkaJvm) -> None:
    partition = kafka.partition('t"é', 1)
    assert znodes.encode_reassign_partitions({TopicPartition('t"é', 1): (3, 4)}) == bytes(
        codec(kafka, "ReassignPartitionsZNode").encode(kafka.mapping({partition: kafka.sequence([3, 4])}))
    )
    assert znodes.encode_preferred_replica_election([TopicPartition('t"é', 1)]) == bytes(
        codec(kafka, "PreferredReplicaElectionZNode").encode(kafka.set([partition]))
    )
    assert znodes.encode_log_dir_event(znodes.LogDirEvent(3)) == bytes(
        codec(kafka, "LogDirEventNotificationSequenceZNode").encode(3)
    )
    assert znodes.encode_controller(znodes.ControllerZnode(broker_id=1, timestamp="17")) == bytes(
        codec(kafka, "ControllerZNode").encode(1, 17, -1)
    )
    assert znodes.encode_cluster_id("x") == bytes(codec(kafka, "ClusterIdZNode").toJson("x"))
