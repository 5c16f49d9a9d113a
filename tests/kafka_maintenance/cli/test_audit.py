"""The record on the command line, where its entries are sent, and whether the command may apply a plan at all."""

import json
import socket
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from controller_core.adapters.object_store.open import FolderStore
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.cluster import observe
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.gate.shown import shown
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.record import audit, audit_sink
from tests.dags.world import World
from tests.listening import listening
from tests.webhook_receiver import webhook_receiver

RUN = "elect_preferred_leaders.manual"


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


@pytest.fixture
def plan(store):
    return plan_elections(store, "alpha", zookeeper=World().zookeeper, now=datetime(2026, 11, 21, tzinfo=UTC))


def _approve(store, plan, option="Approve"):
    """A question and its answer, as the gate of a run keeps them."""
    text = shown(store, kind=plan.kind, cluster="alpha", digest=plan.digest)
    what = {"cluster": "alpha", "run": RUN, "ask_id": "1"}
    question = {
        "kind": plan.kind,
        "digest": plan.digest,
        "shown": text.digest,
        "requester": "otto",
        "policy": "default",
    }
    approvals.keep_question(store, **what, question=question)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    answer = {"user": "olivia", "options": [option], "comment": "window", "at": now}
    approvals.keep_answer(store, **what, answer=answer)


def _apply(plan, *options):
    return main(["apply", plan.uri, "--approve", plan.digest, "--zookeeper", "127.0.0.1:1", *options])


def _policy(tmp_path, says):
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\ndefault: {{command_may_apply: {says}}}\n")
    return "--policy", str(path)


def test_the_chain_is_verified_and_a_break_ends_with_4(store, plan, tmp_path, capsys):
    _approve(store, plan)
    where = ("--store", store.uri, "--cluster", "alpha")
    assert main(["audit", "verify", *where]) == 0
    assert capsys.readouterr().out.startswith("2 entries, signatures not checked, head ")
    assert main(["audit", "export", *where]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["audit"]["event"] for entry in entries] == ["asked", "decided"]
    assert {"host", "os_user", "version", "at", "previous"} <= entries[0]["audit"].keys()
    key = audit.entry_key("alpha", 1)
    data = store.get(key)
    store.delete(key)
    store.put(key, data.replace(b"otto", b"ada"))
    assert main(["audit", "verify", *where]) == 4
    assert capsys.readouterr().out.startswith(f"first break: {audit.entry_key('alpha', 2)}: expected number 2 after ")


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path, capsys):
    path = tmp_path / "audit.pem"
    assert main(["audit", "keygen", str(path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert list(audit.read_public_keys(tmp_path / "audit.pem.pub")) == [made["key"]]
    assert path.stat().st_mode & 0o777 == 0o600
    assert main(["audit", "keygen", str(path)]) == 2
    with pytest.raises(BadInputError, match="expected an Ed25519 private key as PEM"):
        audit.read_private_key(tmp_path / "audit.pem.pub")
    with pytest.raises(BadInputError, match="expected at least one public Ed25519 key"):
        audit.read_public_keys(path)


@pytest.mark.parametrize(("stands", "lacks"), [("audit.pem", "audit.pem.pub"), ("audit.pem.pub", "audit.pem")])
def test_no_half_of_a_pair_of_keys_is_written_over_and_none_is_made(tmp_path, capsys, stands, lacks):
    """What a lost private key signed is checked with its public one."""
    (tmp_path / stands).write_text("in use")
    assert main(["audit", "keygen", str(tmp_path / "audit.pem")]) == 2
    assert f"{tmp_path / stands}: File exists; name a new file" in capsys.readouterr().err
    assert ((tmp_path / stands).read_text(), (tmp_path / lacks).exists()) == ("in use", False)


def test_an_approval_is_withdrawn_by_the_command(store, plan, capsys):
    _approve(store, plan)
    where = ("--store", store.uri, "--cluster", "alpha")
    assert main(["withdraw", RUN, *where, "--approver", "otto", "--comment", "wrong window"]) == 0
    assert approvals.asked(store, cluster="alpha", run=RUN).withdrawn["by"] == "otto"
    assert main(["withdraw", "no.run", *where]) == 2


def test_the_command_does_not_apply_where_the_policy_says_never(plan, tmp_path, capsys):
    assert _apply(plan, *_policy(tmp_path, "never")) == 1
    assert "command_may_apply: never; use Airflow's gate" in capsys.readouterr().err


def test_nothing_is_applied_without_keys_where_the_policy_wants_a_signed_record(plan, tmp_path, capsys, monkeypatch):
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\ndefault: {signed_record: true}\n")
    assert _apply(plan, "--policy", str(path)) == 1
    assert "wants a signed record" in capsys.readouterr().err
    assert main(["audit", "keygen", str(tmp_path / "audit.pem")]) == 0
    monkeypatch.setenv(audit.KEY_FILE_VARIABLE, str(tmp_path / "audit.pem"))
    assert _apply(plan, "--policy", str(path)) == 1, "it would be signed, and any signature would count"
    monkeypatch.setenv(audit.PUBLIC_KEYS_VARIABLE, str(tmp_path / "audit.pem.pub"))
    assert _apply(plan, "--policy", str(path)) == 3, "permitted, and no ZooKeeper answers"


def test_the_command_applies_what_a_gate_approved(store, plan, tmp_path, capsys):
    policy = _policy(tmp_path, "with-signed-approval")
    assert _apply(plan, *policy) == 1
    assert "give --approved-run" in capsys.readouterr().err
    assert _apply(plan, *policy, "--approved-run", RUN) == 1
    assert "has no answer" in capsys.readouterr().err
    _approve(store, plan)
    assert _apply(plan, *policy, "--approved-run", RUN) == 3, "permitted, and no ZooKeeper answers"


def test_the_command_does_not_apply_what_a_person_rejected(store, plan, capsys):
    _approve(store, plan, "Reject")
    assert _apply(plan) == 1
    assert "'olivia' rejected it" in capsys.readouterr().err
    assert _apply(plan, "--after-rejection", RUN) == 3


@pytest.fixture(autouse=True)
def _no_server_is_waited_for(monkeypatch):
    monkeypatch.setattr(observe, "ZOOKEEPER_TIMEOUT_S", 0.2)


@pytest.fixture
def receiver():
    with webhook_receiver() as receiver:
        yield receiver


def test_each_entry_is_sent_as_it_is_written(store, plan, receiver, monkeypatch):
    monkeypatch.setenv(audit_sink.SINK_VARIABLE, receiver.url)
    _approve(store, plan)
    assert receiver.got == [data for _, data in audit.entries(store, "alpha")]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(500, id="refused"),
        *(pytest.param(each, id=f"sent elsewhere, {each}") for each in (301, 302, 303, 307)),
    ],
)
def test_what_is_not_taken_stops_what_would_follow_unless_it_is_optional(store, plan, receiver, monkeypatch, status):
    receiver.status = status
    monkeypatch.setenv(audit_sink.SINK_VARIABLE, receiver.url)
    with pytest.raises(audit_sink.AuditSinkError, match=r"audit entry not delivered to 127\.0\.0\.1"):
        _approve(store, plan)
    monkeypatch.setenv(audit_sink.OPTIONAL_VARIABLE, "true")
    audit.AuditChain(store, "alpha").append("asked", "v1/approvals/cluster=alpha/x.json", {"run": "x"})


def test_syslog_takes_an_entry_over_tcp():
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = audit_sink.sink_from({audit_sink.SINK_VARIABLE: f"syslog://127.0.0.1:{server.getsockname()[1]}"})
        sink.send(b'{"run":"x"}')
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            message = stream.read()
    length, _, text = message.partition(b" ")
    assert int(length) == len(text)
    assert text.startswith(b"<109>1 ")
    assert text.endswith(b' kafka-maintenance - audit - {"run":"x"}')


def test_an_answer_that_is_no_http_is_a_delivery_that_failed():
    class Babble(BaseHTTPRequestHandler):
        def handle(self):
            self.connection.recv(65_536)
            self.wfile.write(b"220 mail.example ESMTP\r\n")

    with listening(HTTPServer(("127.0.0.1", 0), Babble)) as server:
        sink = audit_sink.Sink(f"http://127.0.0.1:{server.server_port}/")
        with pytest.raises(audit_sink.AuditSinkError, match=r"not delivered to 127\.0\.0\.1: .*220 mail"):
            sink.send(b"{}")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/y",
        "syslog://host",
        "https:///path",
        "syslog://host:99999",
        "http://host:port/",
        "http://[::1/",
        pytest.param("https://me:secret@host/", id="a login, which no message shows"),
    ],
)
def test_another_address_of_a_sink_is_refused(url):
    with pytest.raises(BadInputError, match="audit sink not used") as refused:
        audit_sink.sink_from({audit_sink.SINK_VARIABLE: url})
    assert "secret" not in str(refused.value)


def test_signatures_count_by_the_settings_where_no_file_is_named(store, plan, tmp_path, monkeypatch, capsys):
    _approve(store, plan)
    assert main(["audit", "keygen", str(tmp_path / "audit.pem")]) == 0
    monkeypatch.setenv(audit.PUBLIC_KEYS_VARIABLE, str(tmp_path / "audit.pem.pub"))
    capsys.readouterr()
    assert main(["audit", "verify", "--store", store.uri, "--cluster", "alpha"]) == 4
    told = capsys.readouterr().out
    assert "00000001.json: not signed, expected a signature by one of " in told
    assert told.endswith(
        f"2 entries, signatures checked, head {audit.audit_findings(store, 'alpha', keys=audit.Keys())[1]}\n"
    )
    assert "v1/approvals" not in told


@pytest.mark.parametrize("head", ["d521349604e0", "", "D" * 64, "entries"])
def test_what_is_no_hash_is_bad_input_and_no_break(store, plan, capsys, head):
    _approve(store, plan)
    assert main(["audit", "verify", "--store", store.uri, "--cluster", "alpha", "--head", head]) == 2
    assert capsys.readouterr().out == ""


def test_a_cluster_that_nobody_knows_is_bad_input_also_with_a_hash(store, plan, capsys):
    assert main(["audit", "verify", "--store", store.uri, "--cluster", "alhpa", "--head", "d" * 64]) == 2
    assert "cluster 'alhpa' not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[1]", b"[" * 100_000, b"not\x1b[31m\n{}", b'{"a": NaN}', b'{"a":\n1}'], ids=ascii
)
def test_an_object_in_the_place_of_an_entry_is_named_and_hides_no_other(store, plan, capsys, content):
    _approve(store, plan)
    key = audit.entry_key("alpha", 1)
    store.delete(key)
    store.put(key, content)
    where = ("--store", store.uri, "--cluster", "alpha")
    assert main(["audit", "verify", *where]) == 4
    assert capsys.readouterr().out.startswith(f"first break: {key}: ")
    assert main(["audit", "export", *where]) == 3
    told = capsys.readouterr()
    assert [json.loads(line)["audit"]["event"] for line in told.out.splitlines()] == ["decided"]
    assert f"entry {store.uri_of(key)} left out" in told.err
    assert main(["audit", "export", "--json", *where]) == 3
    assert len(json.loads(capsys.readouterr().out)["entries"]) == 1


def test_a_key_whose_public_half_does_not_count_signs_nothing(store, plan, tmp_path, monkeypatch):
    for name in ("old", "new"):
        assert main(["audit", "keygen", str(tmp_path / name)]) == 0
    monkeypatch.setenv(audit.KEY_FILE_VARIABLE, str(tmp_path / "new"))
    monkeypatch.setenv(audit.PUBLIC_KEYS_VARIABLE, str(tmp_path / "old.pub"))
    with pytest.raises(
        BadInputError, match=r"nothing recorded: expected the public half of the key that signs, .* append it"
    ):
        _approve(store, plan)
    assert list(audit.entries(store, "alpha")) == []
