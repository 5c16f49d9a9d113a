"""What is posted is taken by who answers so, and by nobody else: a redirect is asked for by GET, without it."""

from urllib.error import HTTPError

import pytest

from kafka_maintenance.operations.webhook import post_json
from tests.webhook_receiver import webhook_receiver


@pytest.fixture
def receiver():
    with webhook_receiver() as receiver:
        yield receiver


def test_what_is_taken_is_json(receiver):
    receiver.status = 204
    post_json(receiver.url, b"{}", 5)
    assert list(zip(receiver.types, receiver.got, strict=True)) == [("application/json", b"{}")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 500])
def test_what_is_sent_elsewhere_or_refused_is_not_taken(receiver, status):
    receiver.status = status
    with pytest.raises(HTTPError, match=str(status)):
        post_json(receiver.url, b"{}", 5)
