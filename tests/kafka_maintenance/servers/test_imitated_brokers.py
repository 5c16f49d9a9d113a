"""The requests of an imitated broker, held against a schema library; the real controller is in tests/…/kraft/rehearsal."""

import uuid

import pytest
from kio.schema.broker_heartbeat.v0.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v1.request import BrokerRegistrationRequest as RegistrationV1
from kio.schema.broker_registration.v2.request import BrokerRegistrationRequest as RegistrationV2
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from kafka_maintenance.servers.imitated_brokers import Registration, heartbeat_request, registration_request

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
