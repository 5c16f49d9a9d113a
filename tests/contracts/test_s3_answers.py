"""Answers of an S3 server that are hard to provoke, and what the store makes of them."""

import io

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.loaders import JSONFileLoader
from botocore.response import StreamingBody
from botocore.stub import Stubber

from controller_core.adapters.object_store.s3 import S3Store
from controller_core.model.errors import (
    ObjectDamagedError,
    ObjectExistsError,
    StoreAccessDeniedError,
    StoreUnreachableError,
    StoreUnwritableError,
)


class Stubbed:
    """A store whose answers come from botocore's own stubber."""

    def __init__(self) -> None:
        self.store = S3Store("b", "p", endpoint_url="http://127.0.0.1:9", access_key="a", secret_key="b")
        self.stub = Stubber(self.store._client)
        self.stub.activate()


@pytest.mark.parametrize(
    ("answers", "raised", "text"),
    [
        pytest.param([("PreconditionFailed", 412)], ObjectExistsError, "exists already", id="somebody else won"),
        pytest.param([("ConditionalRequestConflict", 409), None], None, "", id="overlap, then won"),
        pytest.param(
            [("ConditionalRequestConflict", 409), ("PreconditionFailed", 412)],
            ObjectExistsError,
            "exists already",
            id="overlap, then lost",
        ),
        pytest.param(
            [("ConditionalRequestConflict", 409)] * 2,
            StoreUnreachableError,
            "found the conflict .*run again",
            id="overlap twice",
        ),
        pytest.param([("SlowDown", 503)], StoreUnreachableError, "SlowDown: said so", id="too much to do"),
        pytest.param(
            [("InternalError", 500)], StoreUnreachableError, "check the store and run again", id="a fault of its own"
        ),
        pytest.param(
            [("RequestTimeout", 400)], StoreUnreachableError, "RequestTimeout", id="bytes that came too slowly"
        ),
        pytest.param([("BadGateway", 502)], StoreUnreachableError, "BadGateway", id="a proxy without its server"),
        pytest.param([("NotImplemented", 501)], StoreUnwritableError, "NotImplemented", id="no conditional writes"),
        pytest.param([("StorageFull", 507)], StoreUnwritableError, "StorageFull", id="no room"),
        pytest.param([("AccessDenied", 403)], StoreAccessDeniedError, "access key", id="credentials refused"),
        pytest.param([("SignatureDoesNotMatch", 403)], StoreAccessDeniedError, "secret", id="wrong secret"),
        pytest.param([("NoSuchBucket", 404)], StoreUnreachableError, "no bucket 'b'", id="no bucket"),
        pytest.param([("QuotaExceeded", 400)], StoreUnwritableError, "QuotaExceeded", id="full"),
        pytest.param([("BadDigest", 400)], ObjectDamagedError, "changed on the way", id="bytes damaged on the way"),
    ],
)
def test_answers_to_a_conditional_put(answers, raised: type[Exception] | None, text):
    stubbed = Stubbed()
    for answer in answers:
        if answer is None:
            stubbed.stub.add_response("put_object", {})
        else:
            stubbed.stub.add_client_error("put_object", answer[0], "said so", answer[1])
    if raised is None:
        stubbed.store.put_new("k", b"x")
    else:
        with pytest.raises(raised, match=text):
            stubbed.store.put_new("k", b"x")
    stubbed.stub.assert_no_pending_responses()


@pytest.mark.parametrize("broken", [1, 3, 4])
def test_an_answer_that_breaks_off_is_asked_for_again(broken):
    stubbed = Stubbed()
    for sent in [*[b"prec"] * broken, b"precious"]:
        stubbed.stub.add_response("get_object", {"Body": StreamingBody(io.BytesIO(sent), 8)})
    if broken < 4:
        assert stubbed.store.get("k") == b"precious"
        stubbed.stub.assert_no_pending_responses()
    else:
        with pytest.raises(StoreUnreachableError, match="'s3://b/p/k' not read"):
            stubbed.store.get("k")


def test_what_has_no_answer_is_repeated_by_boto3_alone(monkeypatch):
    store, asked = Stubbed().store, []

    def hang(**request):
        asked.append(request["Key"])
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1:9")

    monkeypatch.setattr(store._client, "get_object", hang)
    with pytest.raises(StoreUnreachableError, match="'s3://b/p/k' not read"):
        store.get("k")
    assert asked == ["p/k"]


def test_a_further_store_reads_no_description_of_the_service_again_and_its_credentials_anew(monkeypatch, tmp_path):
    def opened(key):
        (tmp_path / "credentials").write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")
        store = S3Store("b", "p", endpoint_url="http://127.0.0.1:9")
        return store._client.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert "Credential=first%2F" in opened("first")
    monkeypatch.setattr(JSONFileLoader, "load_file", None)
    assert "Credential=second%2F" in opened("second")
