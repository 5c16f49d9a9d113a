"""Boundary: who may write the store, against what is approved and applied.

A colleague with the bucket's keys, and without the key that signs, can remove and add; what he adds counts for nothing.
"""

import hashlib
import json
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import FolderStore, open_store
from controller_core.adapters.object_store.probe import probe_store
from controller_core.model.errors import ObjectStoreError, StoreUnwritableError
from tests.dags.world import CLUSTER
from tests.listening import listening


def write_over(path, text):
    path.chmod(0o644)
    path.write_text(text)


def _signed(document):
    """The document as a stored plan, with the digest that it has."""
    from controller_core.plans.document import canonical

    document = {name: value for name, value in document.items() if name not in {"digest", "code_version"}}
    return canonical({**document, "digest": hashlib.sha256(canonical(document)).hexdigest()})


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_rejection_edited_into_an_approval_is_none(world, plan, tmp_path, monkeypatch, everywhere):
    """Editing the entry of the chain as well takes the key that signs."""
    from datetime import UTC, datetime

    from kafka_maintenance.cli.main import main
    from kafka_maintenance.operations.gate import approvals
    from kafka_maintenance.operations.gate.permission import permission
    from kafka_maintenance.operations.gate.policy import Policy
    from kafka_maintenance.operations.record import audit

    assert main(["audit", "keygen", str(tmp_path / "key")]) == 0
    monkeypatch.setenv(audit.KEY_FILE_VARIABLE, str(tmp_path / "key"))
    monkeypatch.setenv(audit.PUBLIC_KEYS_VARIABLE, str(tmp_path / "key.pub"))
    store, now = FolderStore(tmp_path), datetime.now(UTC)
    what = {"cluster": CLUSTER, "run": "d.r", "ask_id": "1"}
    question = {"kind": plan.kind, "digest": plan.digest, "shown": "0" * 64, "requester": "otto", "policy": "default"}
    answer = {"user": "olivia", "options": ["Reject"], "comment": None, "at": now.isoformat()}
    approvals.keep_question(store, **what, question=question)
    approvals.keep_answer(store, **what, answer=answer)
    for path in tmp_path.rglob("*.json"):
        if "decided" in path.name or (everywhere and "/audit/" in str(path)):
            write_over(path, path.read_text().replace('"Reject"', '"Approve"'))
    asked = {"kind": plan.kind, "cluster": CLUSTER, "run": "d.r", "policy": Policy("default", {}, {}), "now": now}
    with pytest.raises(
        audit.UntrustedRecordError, match="signature" if everywhere else "the chain holds no such record"
    ):
        permission(store, **asked)


def test_a_plan_whose_effects_are_not_of_its_kind_is_refused_by_name(world, plan, deletion, tmp_path):
    from controller_core.adapters.object_store.open import FolderStore
    from controller_core.model.errors import InvalidPlanError
    from kafka_maintenance.operations.plans.store import load_plan

    store = FolderStore(tmp_path)
    document = json.loads(store.get(deletion.uri.removeprefix(f"{store.uri}/")))
    store.put(f"v1/cluster={CLUSTER}/forged.json", _signed(document | {"kind": "elect_preferred_leaders"}))
    with pytest.raises(InvalidPlanError, match=r"planned for elect_preferred_leaders, found: .*CreateDeleteTopic"):
        load_plan(store, store.uri_of(f"v1/cluster={CLUSTER}/forged.json"))


def test_a_reassignment_to_an_empty_list_is_refused_when_it_is_read(world, tmp_path):
    """The controller would delete the partition's data."""
    from controller_core.adapters.object_store.open import FolderStore
    from controller_core.model.errors import InvalidPlanError
    from controller_core.model.partitions import BrokerId
    from controller_core.plans.request_znodes import Target
    from kafka_maintenance.operations.plans.reassignment import plan_reassignment
    from kafka_maintenance.operations.plans.store import load_plan

    store = FolderStore(tmp_path)
    waves = [[Target("orders", 0, tuple(map(BrokerId, (3, 2, 1))))]]
    made = plan_reassignment(store, CLUSTER, waves=waves, zookeeper=world.zookeeper)
    document = json.loads(store.get(made.uri.removeprefix(f"{store.uri}/")))
    document["steps"][0]["effects"][0]["targets"][0]["replicas"] = []
    store.put(f"v1/cluster={CLUSTER}/forged.json", _signed(document))
    with pytest.raises(InvalidPlanError, match="expected each broker once, and one at least"):
        load_plan(store, store.uri_of(f"v1/cluster={CLUSTER}/forged.json"))


def test_retention_removes_no_key_that_its_plan_names(tmp_path):
    from datetime import UTC, datetime

    from controller_core.adapters.object_store.open import FolderStore
    from controller_core.model.errors import InvalidPlanError
    from kafka_maintenance.operations.retention import plan as retention
    from kafka_maintenance.operations.retention import store as retention_plan
    from tests.kafka_maintenance.snapshot_world import stored_day

    store, now = FolderStore(tmp_path), datetime.now(UTC)
    for age in (9, 8, 7):
        stored_day(store, now, age)
    store.put("v1/receipts/cluster=alpha/theirs.json", b"{}")
    policy = retention.RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    made = retention.plan_retention(store, policy, now=now, cluster="alpha")
    first, *others = made.dropped
    forged = retention.Dropped(
        first.snapshot_id, "alpha", first.taken_at, (*first.keys, "v1/receipts/cluster=alpha/theirs.json")
    )
    dropped = (forged, *others)
    digest = retention.retention_digest(policy, made.kept, dropped, made.abandoned)
    plan = retention.RetentionPlan(policy, made.kept, dropped, made.abandoned, digest)
    stored = retention_plan.store_retention(store, plan, "alpha")
    with suppress(InvalidPlanError):
        retention_plan.apply_stored_retention(
            store=store,
            plan_uri=stored.uri,
            cluster="alpha",
            approved_digest=digest,
            approver="olivia",
            now=now,
            run_id="r",
        )
    assert store.list("v1/receipts/cluster=alpha/theirs.json")


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda document: document | {"summary": "nothing is removed"}, id="a summary of its own"),
        pytest.param(lambda document: document["dropped"][0].update(kept=True) or document, id="a field of a row"),
        pytest.param(lambda document: document | {"code_version": 2}, id="of another kind"),
    ],
)
def test_a_retention_plan_has_the_fields_of_one_and_no_others(tmp_path, forge):
    from datetime import UTC, datetime

    from controller_core.model.errors import InvalidPlanError
    from kafka_maintenance.operations.retention import plan as retention
    from kafka_maintenance.operations.retention import store as retention_plan
    from tests.kafka_maintenance.snapshot_world import stored_day

    store, now = FolderStore(tmp_path), datetime.now(UTC)
    for age in (9, 8, 7):
        stored_day(store, now, age)
    policy = retention.RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    made = retention_plan.store_retention(
        store, retention.plan_retention(store, policy, now=now, cluster="alpha"), "alpha"
    )
    assert retention_plan.load_retention(store, made.uri, cluster="alpha") == made
    key = made.uri.removeprefix(f"{store.uri}/")
    store.put(key, json.dumps(forge(json.loads(store.get(key)))).encode())
    with pytest.raises(InvalidPlanError, match="expected the fields of a retention plan and no others"):
        retention_plan.load_retention(store, made.uri, cluster="alpha")


@pytest.fixture
def chain(signed):
    """A store with four signed records."""
    from controller_core.adapters.object_store.open import MemoryStore
    from kafka_maintenance.operations.record import audit

    store = MemoryStore()
    for number in range(1, 5):
        audit.AuditChain(store, CLUSTER).append("asked", f"v1/approvals/cluster={CLUSTER}/r{number}", {"run": number})
    return store


def _findings(store, **how):
    import os

    from kafka_maintenance.operations.record.audit import audit_findings, keys_from

    return audit_findings(store, CLUSTER, keys=keys_from(os.environ), **how)


def _edit(store, key, text, other):
    store.put(key, store.get(key).replace(text, other))


ENTRY = f"v1/audit/cluster={CLUSTER}/0000000"


@pytest.mark.parametrize(
    ("tamper", "first"),
    [
        pytest.param(
            lambda s: _edit(s, f"{ENTRY}2.json", b'"run":2', b'"run":9'), "2.json: its signature", id="edited"
        ),
        pytest.param(lambda s: s.delete(f"{ENTRY}2.json"), "3.json: expected entry", id="removed"),
        pytest.param(
            lambda s: s.put(f"{ENTRY}5.json", s.get(f"{ENTRY}4.json")), "5.json: expected number 5", id="repeated"
        ),
        pytest.param(lambda s: s.put(f"{ENTRY}5.json", b"{}"), "5.json: expected an entry, found none", id="no entry"),
        pytest.param(
            lambda s: s.put(f"v1/receipts/cluster={CLUSTER}/d/0001-done.json", b"{}"),
            "0001-done.json: the chain holds no such record",
            id="a receipt of his own",
        ),
        pytest.param(
            lambda s: _edit(s, f"v1/approvals/cluster={CLUSTER}/r3", b'"run":3', b'"run":4'),
            "r3: the chain holds no such record",
            id="a record edited",
        ),
    ],
)
def test_the_first_break_of_the_chain_is_named(chain, tamper, first):
    assert _findings(chain)[2] == ()
    tamper(chain)
    assert first in str(_findings(chain)[2][0])


def test_an_entry_that_somebody_else_signed_is_a_break(chain, tmp_path):
    from kafka_maintenance.cli.main import main
    from kafka_maintenance.operations.record import audit

    assert main(["audit", "keygen", str(tmp_path / "theirs")]) == 0
    theirs = audit.Keys(audit.read_private_key(tmp_path / "theirs"))
    audit.AuditChain(chain, CLUSTER, keys=theirs).append("asked", f"v1/approvals/cluster={CLUSTER}/r5", {"run": 5})
    assert "5.json: signed by key" in str(_findings(chain)[2][0])
    with pytest.raises(audit.UntrustedRecordError, match="signed by key"):
        audit.trusted_record(chain, CLUSTER, f"v1/approvals/cluster={CLUSTER}/r5")


def test_entries_removed_from_the_end_are_missed_by_who_saw_one_of_them(chain):
    _, head, _ = _findings(chain)
    for key in (f"{ENTRY}4.json", f"v1/approvals/cluster={CLUSTER}/r4"):
        chain.delete(key)
    assert _findings(chain)[2] == ()
    (finding,) = _findings(chain, head=head)[2]
    assert "entries are gone" in str(finding)


def test_a_reassignment_without_its_proof_is_not_applied(tmp_path):
    from controller_core.adapters.object_store.open import MemoryStore
    from kafka_maintenance.operations.errors import RefusedError
    from kafka_maintenance.operations.plans.reassignment import plan_reassignment
    from kafka_maintenance.operations.plans.store import key_of, read_plan, read_proof
    from tests.kafka_maintenance.operations.plans.made import plan_of, six_on_two_brokers

    store, world = MemoryStore(), six_on_two_brokers()
    made = plan_of(plan_reassignment, world, store)
    store.delete(key_of(store, made.uri).replace(".json", ".proof.json"))
    with pytest.raises(RefusedError, match="expected the planner's proof with hash"):
        read_proof(store, made.uri, read_plan(store, made.uri))


class TestFolder:
    """A folder that others may write, too, or read."""

    def test_a_link_that_leads_out_is_neither_read_nor_written(self, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "key.pem").write_text("secret")
        store = FolderStore(tmp_path / "store")
        store.put("v1/plan.json", b"{}")
        (tmp_path / "store" / "v1" / "away").symlink_to(outside)
        (tmp_path / "store" / "v1" / "manifest.json").symlink_to(outside / "key.pem")
        attempts = [
            lambda: store.get("v1/away/key.pem"),
            lambda: store.get("v1/manifest.json"),
            lambda: store.size("v1/away/key.pem"),
            lambda: store.put("v1/away/new", b"x"),
            lambda: store.put_new("v1/away/new", b"x"),
            lambda: store.delete("v1/away/key.pem"),
        ]
        for attempt in attempts:
            with pytest.raises(ObjectStoreError, match="leads out of the store"):
                attempt()
        assert [path.name for path in outside.iterdir()] == ["key.pem"]
        assert store.get("v1/plan.json") == b"{}"

    def test_a_store_that_is_itself_reached_by_a_link_works(self, tmp_path):
        (tmp_path / "disk").mkdir()
        (tmp_path / "store").symlink_to(tmp_path / "disk")
        store = FolderStore(tmp_path / "store")
        store.put_new("v1/plan.json", b"{}")
        assert store.get("v1/plan.json") == b"{}"

    def test_what_it_makes_is_for_its_owner_alone(self, tmp_path):
        store = FolderStore(tmp_path / "store")
        store.put("v1/a/plan.json", b"{}")
        store.put_new("v1/a/receipt.json", b"{}")
        (tmp_path / "file").write_bytes(b"x")
        store.put_file("v1/b/raw", tmp_path / "file")
        made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
        modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in made}
        assert {mode for name, mode in modes.items() if (tmp_path / name).is_dir()} == {0o700}
        assert {mode for name, mode in modes.items() if (tmp_path / name).is_file()} == {0o600}


@contextmanager
def _s3_server_that_ignores_if_none_match():
    """A real one over HTTP, which never sees that header, as `rclone serve s3` does not look at it; yields its address."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    moto = DomainDispatcherApplication(create_backend_app)

    def ignoring(environ, start_response):
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return moto(environ, start_response)

    with listening(make_server("127.0.0.1", 0, ignoring, threaded=True)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


class TestWithoutConditionalWrites:
    """A store that lets a record be overwritten keeps none: nobody is asked, and nothing is written or removed."""

    @pytest.fixture(params=["folder", pytest.param("S3 server", marks=pytest.mark.services)])
    def store(self, request, plan, tmp_path):
        """With the plan in it."""

        class Overwriting(FolderStore):
            def put_new(self, key, data):
                self.put(key, data)

            def probe(self):
                probe_store(self)

        folder = Overwriting(tmp_path)
        if request.param == "folder":
            yield folder
            return
        with _s3_server_that_ignores_if_none_match() as endpoint_url:
            store = open_store("s3://backups/here", endpoint_url=endpoint_url, access_key="any", secret_key="any")
            store._client.create_bucket(Bucket="backups")
            for key in folder.list(""):
                store.put(key, folder.get(key))
            yield store

    def test_the_gate_asks_nobody(self, store, bag, clients, world, plan, monkeypatch):
        from kafka_maintenance import hooks
        from tests.dags.runs import answered_by, answering, states_of

        monkeypatch.setattr(hooks, "store", lambda: store)
        dag = bag.dags["elect_preferred_leaders"]
        with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Reject")) as asked:
            run = dag.test(run_conf={"cluster": CLUSTER, "plan": plan.digest}, logical_date=None)
        assert not asked.done()
        assert states_of(run)["approve"] == "failed"
        (planned,) = store.list("v1/approvals")
        assert planned.endswith("-planned.json"), "the planning task's record, and no question"
        assert len(store.list("v1/audit")) == 1

    def test_a_plan_is_not_applied(self, store, world, plan):
        from kafka_maintenance.operations.apply.plan import apply_plan
        from kafka_maintenance.operations.plans.store import find_plan

        with pytest.raises(StoreUnwritableError, match="a second create-only write"):
            apply_plan(
                store=store,
                plan_uri=find_plan(store, cluster=CLUSTER, kind=plan.kind, digest=plan.digest).uri,
                approved_digest=plan.digest,
                approver="olivia",
                zookeeper=world.zookeeper,
                now=datetime.now(UTC),
            )
        assert world.requests == []
        assert store.list("v1/receipts") == []

    def test_no_snapshot_is_removed(self, store):
        from kafka_maintenance.operations.retention import plan as retention
        from kafka_maintenance.operations.retention import store as retention_plan
        from tests.kafka_maintenance.snapshot_world import stored_day

        now = datetime.now(UTC)
        for age in (9, 8, 7):
            stored_day(store, now, age)
        policy = retention.RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
        made = retention.plan_retention(store, policy, now=now, cluster="alpha")
        stored = retention_plan.store_retention(store, made, "alpha")
        before = store.list("")
        with pytest.raises(StoreUnwritableError, match="a second create-only write"):
            retention_plan.apply_stored_retention(
                store=store,
                plan_uri=stored.uri,
                cluster="alpha",
                approved_digest=made.digest,
                approver="olivia",
                now=now,
                run_id="r",
            )
        assert store.list("") == before
