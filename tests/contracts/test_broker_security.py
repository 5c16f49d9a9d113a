"""A real broker that demands TLS and SASL, with an authorizer: whom it obeys as a controller, and whom it refuses."""

import base64
import hashlib
import hmac
from pathlib import Path
from queue import Queue

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from controller_core.adapters.brokers.access import BrokerAccess, BrokerLogin, BrokerTls, Mechanism
from controller_core.adapters.brokers.channels import UNREACHABLE, BrokerAnswered, ChannelSettings, TcpChannels
from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.messages.effects import SendUpdateMetadata
from controller_core.model.errors import BrokerAccessDeniedError
from controller_core.model.partitions import Broker, BrokerId
from controller_core.znodes import decode_broker
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.ports import free_port
from kafka_maintenance.servers.workspace import Workspace
from tests.contracts.certificates import Authority

pytestmark = pytest.mark.kafka
WAIT_S = 20.0
SALT, ITERATIONS = b"salt-of-a-test", 4096
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
STORE_PASSWORD = "keystore-secret"
USERS = {"admin": "admin-secret", "guest": "guest-secret"}


class SecureListener(dict):
    """Settings of a broker that has a second listener; its first port is known only when it is made."""

    def __init__(self, cluster: KafkaCluster, keystore: Path) -> None:
        super().__init__()
        self._cluster, self._keystore, self._port = cluster, keystore, free_port()

    def get(self, broker_id, default=None):
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        listeners = f"PLAINTEXT://127.0.0.1:{self._cluster.brokers[broker_id].port},SECURE://127.0.0.1:{self._port}"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.secure.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
            "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._keystore),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }


def keystore(folder: Path) -> Path:
    """The broker's certificate and key as Java wants them."""
    key = serialization.load_pem_private_key((folder / "broker.key").read_bytes(), None)
    certificate = x509.load_pem_x509_certificate((folder / "broker.pem").read_bytes())
    locked = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    path = folder / "broker.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, locked))
    return path


def scram_credential(password: str, algorithm: str) -> str:
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), SALT, ITERATIONS)
    stored = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
    keys = {"salt": SALT, "stored_key": stored, "server_key": hmac.digest(salted, b"Server Key", algorithm)}
    texts = ",".join(f"{name}={base64.b64encode(key).decode()}" for name, key in keys.items())
    return f"{texts},iterations={ITERATIONS}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder, "authority")
    authority.issue("broker")
    with Workspace.create_temporary() as workspace, ZooKeeperServer(workspace) as zookeeper:
        cluster = KafkaCluster("2.8", zookeeper, brokers=1, workspace=workspace)
        cluster.broker_config = SecureListener(cluster, keystore(folder))
        with cluster.session() as session:
            mechanisms = ",".join(
                f'"SCRAM-{name}":"{scram_credential(USERS["admin"], algorithm)}"'
                for name, algorithm in (("SHA-256", "sha256"), ("SHA-512", "sha512"))
            )
            session.create(
                "/config/users/admin", f'{{"version":1,"config":{{{mechanisms}}}}}'.encode(), make_parents=True
            )
        with cluster, cluster.session() as session:
            data, stat = session.get("/brokers/ids/1")
            yield decode_broker(data, path="/brokers/ids/1", epoch=stat.czxid).broker, BrokerTls(ca=str(authority.file))


def access(
    tls: BrokerTls | None, mechanism: Mechanism, user: str = "admin", password: str | None = None
) -> BrokerAccess:
    login = BrokerLogin(mechanism=mechanism, username=user, password=password or USERS[user])
    return BrokerAccess(listener="SECURE", tls=tls, login=login)


def answer(broker: Broker, given: BrokerAccess) -> BrokerAnswered:
    """What the broker says to a request of a controller that is long gone."""
    answers: Queue[BrokerAnswered] = Queue()
    with TcpChannels(answers.put, ChannelSettings(access=given, attempts_max=1)) as channels:
        channels.open([broker])
        head = {"broker": broker.id, "broker_epoch": broker.epoch, "version": 0, "controller_id": BrokerId(9)}
        live = {"partition_states": (), "live_brokers": (broker,), "topic_ids": ()}
        channels.send(SendUpdateMetadata(**head, controller_epoch=0, **live))
        return answers.get(timeout=WAIT_S)


def test_who_is_obeyed_and_who_is_refused(broker):
    registered, tls = broker
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert answer(registered, access(tls, mechanism)).error == "STALE_CONTROLLER_EPOCH"
    assert answer(registered, access(tls, "PLAIN", "guest")).error == "CLUSTER_AUTHORIZATION_FAILED"
    for given, says in (
        (access(tls, "PLAIN", "admin", "guess"), "SASL_AUTHENTICATION_FAILED"),
        (access(tls, "SCRAM-SHA-256", "admin", "guess"), "SASL_AUTHENTICATION_FAILED"),
        (access(BrokerTls(), "PLAIN"), "certificate"),
        (access(None, "PLAIN"), "expected one listener of SASL_PLAINTEXT named SECURE"),
    ):
        with pytest.raises(BrokerAccessDeniedError, match=says):
            BrokerConnection(registered, given, timeout_s=WAIT_S)
        assert answer(registered, given).error == UNREACHABLE
