"""What Kafka writes, byte for byte, and that reading it gives the same value back."""

import pytest

from controller_core import znodes
from controller_core.znodes import ScalaVersion
from tests.controller_core.znodes.cases import CASES


@pytest.mark.parametrize(("path", "value", "data", "encode"), CASES)
def test_the_bytes_are_those_that_kafka_writes(path, value, data, encode):
    assert encode(value) == data


@pytest.mark.parametrize(("path", "value", "data", "encode"), CASES)
def test_the_bytes_read_back_as_the_value(path, value, data, encode):
    assert znodes.decode_znode(data, path=path, version=7, czxid=77) == value


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("scala", list(ScalaVersion))
def test_a_delegation_token_comes_back(version, scala):
    token = znodes.DelegationToken(
        token_id="x",
        owner="User:a",
        renewers=("User:b",),
        issue_timestamp=1,
        max_timestamp=2**40,
        expiry_timestamp=3,
        token_requester="User:c" if version == 3 else None,
        version=version,
    )
    data = znodes.encode_delegation_token(token, scala=scala)
    assert znodes.decode_znode(data, path="/delegation_token/tokens/x") == token
