"""A session that has to log in again, since its connection broke."""

import socket
import threading
from typing import Any

import pytest
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.connection import ConnectionHandler

from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import SessionExpiredError, ZooKeeperError
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.process import wait_until


@pytest.mark.services
def test_a_login_that_breaks_ends_the_session_and_refuses_no_credentials(secured_server: ZooKeeperServer, monkeypatch):
    found: list[ZooKeeperError] = []
    auth = ZooKeeperAuth(scheme="sasl", username="kafka", password="kafka-secret")
    with connect(secured_server.hosts, auth=auth) as session:

        def reads() -> None:
            try:
                session.get("/")
            except ZooKeeperError as error:
                found.append(error)

        reader = threading.Thread(target=reads)

        def breaks(*_: Any) -> None:
            reader.start()
            wait_until(lambda: session.client._queue, what="somebody waits for the session", timeout_s=20)
            raise AuthFailedError("Connection dropped in SASL")  # as kazoo calls it

        monkeypatch.setattr(ConnectionHandler, "_authenticate_with_sasl", breaks)
        session.client._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: found, what="its answer", timeout_s=20)
        reader.join()
    assert [type(each) for each in found] == [SessionExpiredError]
