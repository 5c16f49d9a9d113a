"""The requests of an imitated broker and their order, held against a schema library; the real controller is in tests/…/kraft/rehearsal."""

import struct
import uuid

import pytest
from kio.schema.broker_heartbeat.v0.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v1.request import BrokerRegistrationRequest as RegistrationV1
from kio.schema.broker_registration.v2.request import BrokerRegistrationRequest as RegistrationV2
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from kafka_maintenance.servers.imitated_brokers import (
    HEARTBEAT,
    REGISTRATION,
    ImitatedBrokers,
    Registration,
    heartbeat_request,
    registration_request,
)

INCARNATION, DIRECTORY = uuid.UUID(int=7), uuid.UUID(int=8)


def read(schema, request):
    """Header and body, as the library reads them; nothing is left over."""
    header, header_bytes = entity_reader(RequestHeader)(request, 0)
    body, body_bytes = entity_reader(schema)(request, header_bytes)
    assert header_bytes + body_bytes == len(request)
    return header, body


@pytest.mark.parametrize(("schema", "directory"), [(RegistrationV1, None), (RegistrationV2, DIRECTORY)])
def test_a_registration_says_what_a_broker_in_migration_mode_says(schema, directory):
    said = Registration(3, "c" * 130, "INTERNAL", INCARNATION, directory)  # its length needs two bytes
    header, body = read(schema, registration_request(said, 41))
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (62, said.version, 41)
    assert (body.broker_id, body.cluster_id, body.incarnation_id, body.rack) == (3, "c" * 130, INCARNATION, None)
    assert body.is_migrating_zk_broker
    assert [(each.name, each.host, each.port, each.security_protocol) for each in body.listeners] == [
        ("INTERNAL", "127.0.0.1", 1, 0)
    ]
    assert [(each.name, each.min_supported_version, each.max_supported_version) for each in body.features] == [
        ("metadata.version", 1, 100)
    ]
    assert getattr(body, "log_dirs", None) == (None if directory is None else (DIRECTORY,))


def test_a_heartbeat_wants_to_be_unfenced():
    header, body = read(BrokerHeartbeatRequest, heartbeat_request(3, 17, 42))
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (63, 0, 42)
    assert (body.broker_id, body.broker_epoch, body.want_fence, body.want_shut_down) == (3, 17, False, False)
    assert body.current_metadata_offset > 1 << 32


class Controller:
    """A connection to a controller that refuses the registration of some brokers; `heard` has each request's kind and broker."""

    def __init__(self, *refused):
        self._refused, self.heard = refused, []

    def next_id(self):
        return len(self.heard)

    def ask(self, request):
        schema = {REGISTRATION: RegistrationV2, HEARTBEAT: BrokerHeartbeatRequest}
        header, _ = entity_reader(RequestHeader)(request, 0)
        broker = read(schema[header.request_api_key], request)[1].broker_id
        self.heard.append((header.request_api_key, broker))
        return struct.pack(">ihq", 0, 119 if broker in self._refused else 0, 17)


def test_who_is_registered_is_unfenced_before_the_next_one_is():
    brokers, controller = ImitatedBrokers([1, 2, 3], cluster_id="c", controller_port=1), Controller(2)
    brokers._round(controller)
    assert controller.heard == [(REGISTRATION, 1), (HEARTBEAT, 1), (REGISTRATION, 2), (REGISTRATION, 3), (HEARTBEAT, 3)]
    assert (brokers.all_registered, brokers.refused) == (False, {2: 119})
