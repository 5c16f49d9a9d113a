"""Boundary: keys of the bucket per role, by the sample policy of docs/bucket-policy.json, on a real S3 server, as far as that knows policies;
and those of a second store that only grows, by docs/append-only-policy.json.

versitygw refuses a policy with the condition key `s3:if-none-match`: the one statement of each that has it is left out there, and only its form is checked.
"""

import json
import secrets
import subprocess
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.exceptions import ClientError

from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.model.errors import StoreAccessDeniedError
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.retention.plan import RetentionPolicy, apply_retention, plan_retention
from kafka_maintenance.operations.snapshots.copy import copy_snapshots
from kafka_maintenance.servers.s3 import REGION, ObjectStoreServer, gateway_program
from tests.kafka_maintenance.kafka_world import three_brokers
from tests.kafka_maintenance.snapshot_world import stored_day
from tests.source_files import ROOT

pytestmark = pytest.mark.services

DOCS = ROOT / "docs"
POLICY = (DOCS / "bucket-policy.json").read_text()
APPEND_ONLY = (DOCS / "append-only-policy.json").read_text()
BUCKET = "backups"
SECOND, COPIER = "copies", "COPIER"
ROLES = ("SNAPSHOT_WRITER", "ANALYST", "APPROVER", "APPLIER")
RECORDS = ("audit", "approvals", "rejections", "receipts")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class ServerWithUsers(ObjectStoreServer):
    """A versitygw that keeps users of its own."""

    def _versitygw(self):
        command, env = super()._versitygw()
        at = command.index("posix")
        users, versions = (str(self.workspace.subfolder(name)) for name in ("iam", "versions"))
        return [*command[:at], "--iam-dir", users, "posix", "--versioning-dir", versions, *command[at + 1 :]], env

    def add_user(self, name, secret):
        logins = ("--access", self.access_key, "--secret", self.secret_key, "--endpoint-url", self.endpoint_url)
        user = ("create-user", "--access", name, "--secret", secret, "--role", "user")
        subprocess.run([str(gateway_program()), "admin", *logins, *user], check=True, capture_output=True)


@pytest.fixture(scope="module")
def stores():
    """The bucket as each role opens it, and as its owner."""
    if gateway_program() is None:
        pytest.skip("versitygw is not built and there is no Go to build it; moto knows no users")
    with ServerWithUsers(kind="versitygw") as server:
        server.create_bucket(BUCKET)
        logins = {role: secrets.token_urlsafe(18) for role in (*ROLES, COPIER)}
        for role, secret in logins.items():
            server.add_user(role, secret)
        owner = boto3.client(
            "s3",
            endpoint_url=server.endpoint_url,
            region_name=REGION,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
        )
        with pytest.raises(ClientError, match="invalid condition key"):  # once it is known, the whole policy is tried
            owner.put_bucket_policy(Bucket=BUCKET, Policy=POLICY.replace("BUCKET", BUCKET))
        owner.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(_policy(POLICY, BUCKET)))
        owner.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        owner.create_bucket(Bucket=SECOND, ObjectLockEnabledForBucket=True)  # with versions, as object lock demands
        owner.put_bucket_policy(Bucket=SECOND, Policy=json.dumps(_policy(APPEND_ONLY, SECOND)))
        yield {
            role: open_store(
                f"s3://{SECOND if role == COPIER else BUCKET}",
                endpoint_url=server.endpoint_url,
                access_key=role,
                secret_key=secret,
            )
            for role, secret in (logins | {server.access_key: server.secret_key}).items()
        } | {"bucket": owner}


def _policy(sample, bucket):
    """The sample with the bucket's name, without what versitygw does not know."""
    policy = json.loads(sample.replace("BUCKET", bucket))
    return policy | {"Statement": [each for each in policy["Statement"] if "Condition" not in each]}


def test_the_record_is_create_only_for_everybody():
    (statement,) = [each for each in json.loads(POLICY)["Statement"] if "Condition" in each]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:PutObject")
    assert statement["Condition"] == {"Null": {"s3:if-none-match": "true"}}
    assert set(statement["Resource"]) == {f"arn:aws:s3:::BUCKET/v1/{each}/*" for each in RECORDS}


@pytest.mark.services
def test_each_role_can_do_its_work(stores):
    writer, analyst, approver, applier = (stores[role] for role in ROLES)
    stored_day(writer, NOW, 1, cluster="demo")
    world = three_brokers()
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)))
    assert plan_elections(analyst, "demo", zookeeper=world.zookeeper(), now=NOW)
    later = NOW + timedelta(days=1)  # else it is the same plan, and nothing is written
    plan = plan_elections(approver, "demo", zookeeper=world.zookeeper(), now=later)
    approver.probe()
    gate = {"cluster": "demo", "run": "d.r", "ask_id": "1"}
    approvals.keep_plan(approver, cluster="demo", run="d.r", try_id="1", kind=plan.kind, digest=plan.digest)
    question = {"kind": plan.kind, "digest": plan.digest, "shown": "0" * 64, "requester": "otto", "policy": "default"}
    approvals.keep_question(approver, **gate, question=question)
    answer = {"user": "olivia", "options": ["Approve"], "comment": None, "at": NOW.isoformat()}
    approvals.keep_answer(approver, **gate, answer=answer)
    receipt = apply_plan(
        store=applier,
        plan_uri=plan.uri,
        approved_digest=plan.digest,
        approver="olivia",
        zookeeper=world.zookeeper(),
        now=NOW,
    )
    assert receipt.step_count == 1
    for key in applier.list("v1/cluster=demo/date="):
        if "/snap=" in key:
            applier.delete(key)
    assert writer.list("v1/cluster=demo/date=") == analyst.list("v1/cluster=demo/date=")


SNAPSHOT = "v1/cluster=demo/date=2026-01-01/snap=1/raw.parquet"
PLAN = "v1/cluster=demo/date=2026-01-01/live/plans/elect_preferred_leaders-1.json"
OWN = {
    "SNAPSHOT_WRITER": {SNAPSHOT, "v1/runs/cluster=demo/1.json"},
    "ANALYST": {PLAN, "v1/plans/cluster=demo/1", "v1/analysis/date=2026-01-01/1/manifest.json", "unpublished/1/x"},
    "APPROVER": {f"v1/{each}/cluster=demo/x.json" for each in ("audit", "approvals", "rejections")}
    | {PLAN, "v1/plans/cluster=demo/1"},
    "APPLIER": {f"v1/{each}/cluster=demo/x.json" for each in ("audit", "receipts", "stops")},
}


@pytest.mark.services
@pytest.mark.parametrize("role", ROLES)
def test_no_role_writes_what_is_anothers(stores, role):
    for key in sorted(set().union(*OWN.values())):
        if key in OWN[role]:
            stores[role].put(key, b"{}")
        else:
            with pytest.raises(StoreAccessDeniedError):
                stores[role].put(key, b"{}")


@pytest.mark.services
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("record", RECORDS)
def test_nobody_deletes_a_record(stores, role, record):
    key = f"v1/{record}/cluster=demo/kept.json"
    stores["bucket"].put_object(Bucket=BUCKET, Key=key, Body=b"{}")
    with pytest.raises(StoreAccessDeniedError):
        stores[role].delete(key)
    assert stores[role].get(key) == b"{}"


@pytest.mark.services
def test_only_the_applier_removes_a_snapshot(stores):
    stores["bucket"].put_object(Bucket=BUCKET, Key=SNAPSHOT, Body=b"{}")
    for role in ("SNAPSHOT_WRITER", "ANALYST", "APPROVER"):
        with pytest.raises(StoreAccessDeniedError):
            stores[role].delete(SNAPSHOT)
    stores["APPLIER"].delete(SNAPSHOT)


def test_what_was_written_over_can_be_brought_back_and_no_role_removes_it(stores):
    """Versioning: without the statement that the server does not know, who may write a record may write over it."""
    owner, key = stores["bucket"], "v1/receipts/cluster=blue/over.json"
    stores["APPLIER"].put(key, b"first")
    stores["APPLIER"].put(key, b"forged")
    found = owner.list_object_versions(Bucket=BUCKET, Prefix=key)["Versions"]
    (before,) = [each["VersionId"] for each in found if not each["IsLatest"]]
    assert owner.get_object(Bucket=BUCKET, Key=key, VersionId=before)["Body"].read() == b"first"
    for role in ROLES:
        client = stores[role]._client
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket=BUCKET, Key=key, VersionId=before)


def test_nothing_is_written_over_in_a_second_store():
    (statement,) = [each for each in json.loads(APPEND_ONLY)["Statement"] if "Condition" in each]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:PutObject")
    assert statement["Condition"] == {"Null": {"s3:if-none-match": "true"}}
    assert statement["Resource"] == "arn:aws:s3:::BUCKET/v1/*"


@pytest.mark.services
def test_a_second_store_only_grows(stores):
    """Snapshots are copied and taken there; removals are refused, and of what is written over the older version stays."""
    source, second = MemoryStore("second-store-source"), stores[COPIER]
    for days_ago in (40, 39):
        stored_day(source, NOW, days_ago)
    assert len(copy_snapshots(source, second).copied) == 2
    assert copy_snapshots(source, second).already_there == 2
    stored_day(second, NOW, 38)
    kept = second.list("v1/")
    policy = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    plan = plan_retention(second, policy, now=NOW)
    assert len(plan.dropped) == 2
    with pytest.raises(StoreAccessDeniedError):
        apply_retention(second, policy, plan.digest, now=NOW, approver="ada")
    assert set(kept) <= set(second.list("v1/"))
    assert all(second.get(key) == source.get(key) for key in source.list("v1/"))
    raw = next(key for key in kept if key.endswith("raw.parquet"))
    before, content = stores["bucket"].head_object(Bucket=SECOND, Key=raw)["VersionId"], second.get(raw)
    second.put(raw, b"another")
    version = stores["bucket"].get_object(Bucket=SECOND, Key=raw, VersionId=before)
    assert version["Body"].read() == content
