"""What of a znode is a secret, and what is told of it."""

import json

import pytest

from controller_core.adapters.snapshot.secrets import Sealer, is_secret, is_secret_config, public_config
from controller_core.model.errors import SnapshotKeyError


@pytest.mark.parametrize(
    ("path", "data", "secret"),
    [
        ("/config/users/a", b'{"version":1,"config":{"SCRAM-SHA-512":"x"}}', True),
        ("/config/users/a", b'{"version":1,"config":{"producer_byte_rate":"1"}}', False),
        ("/config/users/a", b"not json", True),
        ("/config/users/a", b"", False),
        ("/config/users/a/clients/c", b'{"version":1,"config":{"SCRAM-SHA-256":"x"}}', True),
        ("/config/brokers/1", b'{"version":1,"config":{"listener.name.x.ssl.keystore.password":"x"}}', True),
        ("/config/brokers/1", b'{"version":1,"config":{"listener.name.x.sasl.jaas.config":"x"}}', True),
        ("/config/brokers/1", b'{"version":1,"config":{"leader.replication.throttled.rate":"1"}}', False),
        ("/config/brokers/1", b"\xff", True),
        ("/config/brokers/1", b'{"version":1,"config":{"listener.name.x.ssl.client.auth":"none"}}', False),
        ("/config/brokers/1", b'{"version":1,"config":{"our.reporter.url":"https://u:p@h"}}', True),
        ("/config/users/a", b'{"version":1,"config":{"our.plugin.setting":"x"}}', True),
        ("/config/clients/c", b'{"version":1,"config":{"request_percentage":"50"}}', False),
        ("/config/clients/c", b'{"version":1,"config":{"our.plugin.setting":"x"}}', True),
        ("/config/clients/c", b"not json", True),
        ("/config/ips/1.2.3.4", b'{"version":1,"config":{"connection_creation_rate":"5"}}', False),
        ("/config/topics/t", b'{"version":1,"config":{"our.plugin.setting":"x"}}', False),
        ("/config/topics/t", b'{"version":1,"config":{"our.plugin.password":"x"}}', True),
        ("/config/topics/t", b"not json", False),
        ("/delegation_token/tokens/abc", b"{}", True),
        ("/delegation_token/token_changes/token_change_0000000001", b"abc", False),
        ("/brokers/topics/password", b'{"partitions":{}}', False),
    ],
)
def test_what_is_a_secret(path, data, secret):
    assert is_secret(path, data) is secret


@pytest.mark.parametrize(
    ("path", "settings", "told"),
    [
        ("/config/users/a", {"SCRAM-SHA-512": "x", "producer_byte_rate": "1"}, {"producer_byte_rate": "1"}),
        ("/config/users/a", {"SCRAM-SHA-256": "x", "note": "y"}, {"note": "…"}),
        ("/config/users/a", {"SCRAM-SHA-1": "x", "our.password": "y"}, {"SCRAM-SHA-1": "…", "our.password": "…"}),
        ("/config/clients/c", {"note": "y"}, {"note": "…"}),
        ("/config/brokers/1", {"ssl.keystore.password": "x", "our.reporter.url": "y"}, {}),
    ],
)
def test_what_is_told_of_a_secret_config(path, settings, told):
    assert public_config(path, json.dumps({"version": 1, "config": settings}).encode()) == told


@pytest.mark.parametrize(
    ("entity_type", "key"),
    [
        *(("topics", key) for key in ("retention.ms", "cleanup.policy", "min.insync.replicas", "compression.type")),
        *(("brokers", key) for key in ("log.retention.ms", "listener.name.internal.max.connections")),
        ("users", "producer_byte_rate"),
    ],
)
def test_ordinary_configs_are_no_secrets(entity_type, key):
    assert not is_secret_config(entity_type, key)


@pytest.mark.parametrize("length", [0, 3, 12, 40])
def test_a_sealed_secret_of_which_bytes_are_missing_is_named(length):
    sealer = Sealer(b"k" * 32).of("alpha", "one")
    with pytest.raises(SnapshotKeyError, match=r"secret of '/config/users/a' not opened: .* or damaged"):
        sealer.open("/config/users/a", sealer.seal("/config/users/a", b"x" * 100)[:length])


@pytest.mark.parametrize(
    ("content", "found"), [(b"", "0"), (b"QUJD", "3"), (b"A" * 43 + b"= QUJD", "3"), (b"# key", "something else")]
)
def test_a_key_file_that_holds_no_key_is_named(tmp_path, content, found):
    path = tmp_path / "snapshot.key"
    path.write_bytes(content)
    with pytest.raises(SnapshotKeyError, match=rf"key file '{path}' not used: expected 32 bytes.*found {found}"):
        Sealer.from_file(path)
