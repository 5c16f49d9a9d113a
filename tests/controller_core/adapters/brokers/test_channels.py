"""Channels to brokers: order, one request in flight, repeated requests, dropped queues, versions, credentials."""

from queue import Empty, Queue
from typing import Any

import pytest

from controller_core.adapters.brokers.access import BrokerAccess, BrokerLogin, BrokerTls, conversation
from controller_core.adapters.brokers.channels import UNREACHABLE, BrokerAnswered, ChannelSettings, TcpChannels
from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.adapters.brokers.requests import request_values, version_for
from controller_core.messages.effects import (
    LeaderAndIsrPartition,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaPartition,
)
from controller_core.model.errors import BrokerAccessDeniedError, BrokerUnreachableError, UnsupportedRequestError
from controller_core.model.partitions import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from tests.broker_server import BrokerServer

WAIT_S = 10.0
PARTITION = TopicPartition("t", 0)
UPDATE_METADATA_KEY = 6


def head(broker: int = 1, version: int = 8, epoch: int = 7) -> dict[str, Any]:
    return {
        "broker": BrokerId(broker),
        "broker_epoch": 100,
        "version": version,
        "controller_id": BrokerId(9),
        "controller_epoch": epoch,
    }


def metadata(epoch: int = 7, version: int = 8) -> SendUpdateMetadata:
    return SendUpdateMetadata(**head(version=version, epoch=epoch), partition_states=(), live_brokers=(), topic_ids=())


def leadership(topic_id: str | None) -> SendLeaderAndIsr:
    row = LeaderAndIsrPartition(PARTITION, LeaderAndIsr(BrokerId(1), 1, (BrokerId(1),)), ReplicaAssignment(()), False)
    return SendLeaderAndIsr(**head(version=7), partition_states=(row,), live_leaders=(), topic_ids=(("t", topic_id),))


def test_requests_are_sent_one_after_the_other_in_order() -> None:
    answers: Queue[BrokerAnswered] = Queue()
    with BrokerServer(1, 100) as server, TcpChannels(answers.put) as channels:
        channels.open([server.registered])
        sent = [metadata(epoch) for epoch in range(1, 30)]
        for request in sent:
            channels.send(request)
        assert [answers.get(timeout=WAIT_S).request for _ in sent] == sent
        assert (server.in_flight_max, channels.metrics()[BrokerId(1)].answered_count) == (1, len(sent))


def test_a_broken_connection_is_made_again_and_the_request_repeated() -> None:
    answers: Queue[BrokerAnswered] = Queue()
    with TcpChannels(answers.put) as channels:
        with BrokerServer(1, 100) as server:
            channels.open([server.registered])
            channels.send(metadata())
            assert answers.get(timeout=WAIT_S).error == "NONE"
            port = server.port
        channels.send(metadata(8))
        with pytest.raises(Empty):
            answers.get(timeout=0.3)
        with BrokerServer(1, 100, port=port):
            assert answers.get(timeout=WAIT_S).request == metadata(8)
        found = channels.metrics()[BrokerId(1)]
        assert found.failure_count > 0
        assert found.request_time_max_s >= found.request_time_s > 0


def test_a_channel_that_shall_not_wait_for_ever_says_that_nobody_answered() -> None:
    answers: Queue[BrokerAnswered] = Queue()
    settings = ChannelSettings(attempts_max=1, request_timeout_s=0.2)
    with BrokerServer(1, 100) as server, TcpChannels(answers.put, settings) as channels:
        server.silent = True
        channels.open([server.registered])
        channels.send(metadata())
        answered = answers.get(timeout=WAIT_S)
        assert answered.error == UNREACHABLE
        assert "expected an answer" in answered.detail


def test_a_broker_that_bounced_gets_nothing_that_was_meant_for_its_earlier_run() -> None:
    answers: Queue[BrokerAnswered] = Queue()
    with BrokerServer(1, 100) as earlier, BrokerServer(1, 200) as later, TcpChannels(answers.put) as channels:
        earlier.silent = True
        channels.open([earlier.registered])
        for epoch in (1, 2, 3):
            channels.send(metadata(epoch))
        channels.open([later.registered])
        assert channels.metrics()[BrokerId(1)].queue_length == 0
        channels.send(metadata(4))
        answered = answers.get(timeout=WAIT_S)
        assert (answered.request, answered.error) == (metadata(4), "STALE_BROKER_EPOCH")
        assert (answers.empty(), len(later.seen)) == (True, 1)


@pytest.mark.parametrize(
    ("pinned", "newest", "sent"),
    [
        pytest.param(False, 8, 8, id="the newest that both know"),
        pytest.param(False, 6, 6, id="an older broker"),
        pytest.param(True, 8, 5, id="that of the inter.broker.protocol.version"),
    ],
)
def test_the_version_of_a_request(pinned, newest, sent):
    answers: Queue[BrokerAnswered] = Queue()
    newest_of = {UPDATE_METADATA_KEY: newest}
    with BrokerServer(1, 100, newest=newest_of) as server:
        with TcpChannels(answers.put, ChannelSettings(pinned=pinned)) as channels:
            channels.open([server.registered])
            channels.send(metadata(version=5))
            assert answers.get(timeout=WAIT_S).error == "NONE"
        assert server.seen == [("UpdateMetadata", sent)]


def test_a_pinned_version_that_the_broker_does_not_know_is_refused() -> None:
    with pytest.raises(UnsupportedRequestError, match="it knows 4 at most"):
        version_for(metadata(version=5), 4, pinned=True)


def test_topics_without_ids_are_named_by_name() -> None:
    assert version_for(leadership("c2ltdWxhdGVkLXRvcGljLQ"), 7, pinned=False) == 7
    assert version_for(leadership(None), 7, pinned=False) == 4


def test_one_flag_cannot_say_two_things() -> None:
    rows = tuple(StopReplicaPartition(TopicPartition("t", n), n == 1, 0) for n in range(2))
    request = SendStopReplica(**head(version=3), partition_states=rows)
    assert [row["delete_partition"] for row in request_values(request, 3)["topic_states"][0]["partition_states"]] == [
        False,
        True,
    ]
    with pytest.raises(UnsupportedRequestError, match="one flag for all"):
        request_values(request, 2)


def login(password: str = "secret") -> BrokerLogin:
    return BrokerLogin(mechanism="PLAIN", username="kafka", password=password)


def test_plain_credentials_are_shown_and_refused_by_name() -> None:
    with BrokerServer(1, 100, password="secret") as server:
        BrokerConnection(server.registered, BrokerAccess(login=login()), timeout_s=WAIT_S).close()
        with pytest.raises(
            BrokerAccessDeniedError, match=r"refused BrokerLogin.*SASL_AUTHENTICATION_FAILED"
        ) as refused:
            BrokerConnection(server.registered, BrokerAccess(login=login("guess")), timeout_s=WAIT_S)
        assert "guess" not in str(refused.value)
        scram = BrokerLogin(mechanism="SCRAM-SHA-256", username="kafka", password="secret")
        with pytest.raises(BrokerAccessDeniedError, match="it offers PLAIN"):
            BrokerConnection(server.registered, BrokerAccess(login=scram), timeout_s=WAIT_S)


def test_scram_as_in_the_example_of_rfc_7677() -> None:
    user = BrokerLogin(mechanism="SCRAM-SHA-256", username="user", password="pencil")
    exchange = conversation(user, nonce="rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = exchange.send(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final.decode() == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        pytest.param([b"r=other,s=W22Z,i=4096"], "is not ours", id="the nonce of somebody else"),
        pytest.param([b"r=mine1,s=W22Z,i=99999999"], "is not ours", id="so many iterations that it would take hours"),
        pytest.param([b"r=mine1,s=W22Z,i=4096", b"v=AAAA"], "does not know the password", id="another broker"),
    ],
)
def test_scram_refuses_who_is_not_the_broker(said: list[bytes], complaint: str) -> None:
    exchange = conversation(BrokerLogin(mechanism="SCRAM-SHA-512", username="u", password="p"), nonce="mine")
    next(exchange)
    with pytest.raises(BrokerAccessDeniedError, match=complaint):
        for each in said:
            exchange.send(each)


def test_a_listener_is_chosen_by_name_and_protocol() -> None:
    inside, outside = Endpoint("a", 1, "INTERNAL", "SASL_SSL"), Endpoint("b", 2, "CLIENTS", "SASL_SSL")
    broker = Broker(BrokerId(1), 1, (inside, outside, Endpoint("c", 3, "PLAINTEXT", "PLAINTEXT")))
    secure = BrokerAccess(listener="INTERNAL", tls=BrokerTls(), login=login())
    assert (secure.endpoint(broker), BrokerAccess().endpoint(broker).port) == (inside, 3)
    for access in (BrokerAccess(tls=BrokerTls(), login=login()), BrokerAccess(tls=BrokerTls())):
        with pytest.raises(BrokerAccessDeniedError, match=r"found INTERNAL \(SASL_SSL\), CLIENTS"):
            access.endpoint(broker)


def test_a_broker_that_is_not_there_is_named() -> None:
    with BrokerServer(1, 100) as server:
        gone = server.registered
    with pytest.raises(BrokerUnreachableError, match=f"broker 1 at 127.0.0.1:{gone.endpoints[0].port}"):
        BrokerConnection(gone, BrokerAccess(), timeout_s=WAIT_S)
