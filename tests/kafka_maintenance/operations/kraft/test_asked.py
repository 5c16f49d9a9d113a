"""What brokers answer: how each answer changes the verdict of a rule, that silence is never a yes, and that real brokers are understood."""

import json

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.kraft.asked import Answer, Answers, NoBrokerAnsweredError, ask_brokers, with_answers
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.servers import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from spark_jobs.kraft.judged import Judged, Verdict
from tests.kafka_maintenance.operations.kraft.trees import MANIFEST, NOW, acl, config, tree

SETTINGS = {
    "inter.broker.protocol.version": "3.9-IV0",
    "broker.id": "1",
    "authorizer.class.name": "",
    "security.inter.broker.protocol": "PLAINTEXT",
    "zookeeper.set.acl": "false",
}
IBP = "inter.broker.protocol.version"


def answer(version=(3, 9), log_dirs=None, sources=None, **settings):
    return Answer(
        version,
        {**SETTINGS, **settings},
        {"broker.id": "STATIC_BROKER_CONFIG"} if sources is None else sources,
        log_dirs or {"/data": 0},
    )


def judged(first=None, second=None, silent=None, changes=None):
    brokers = {1: first or answer(), 2: second or first or answer()}
    found = Answers(
        NOW, {broker: each for broker, each in brokers.items() if broker not in (silent or {})}, silent or {}
    )
    return with_answers(certify(tree(changes), MANIFEST), tree(changes), found).judged


def test_what_healthy_brokers_answer_leaves_only_what_the_quorum_has_to_say():
    found = judged()
    assert {rule for rule, each in found.items() if each.verdict is Verdict.ASK} == {
        "R1", "R2", "R17", "R18", "R21", "R23",
    }  # fmt: skip
    assert not {rule for rule, each in found.items() if each.verdict in {Verdict.NOT_MET, Verdict.DECIDE}}
    assert found["R20"].evidence == ("every broker has one log directory (brokers, 2026-11-23 02:00 UTC)",)


JBOD = {"/a": 0, "/b": 0}


@pytest.mark.parametrize(
    ("rule", "verdict", "given"),
    [
        pytest.param("R1", Verdict.NOT_MET, {"first": answer((3, 5))}, id="R1 too old"),
        pytest.param("R1", Verdict.NOT_MET, {"second": answer((3, 8))}, id="R1 two versions"),
        pytest.param("R2", Verdict.NOT_MET, {"first": answer(**{IBP: "3.3-IV3"})}, id="R2 too old"),
        pytest.param("R2", Verdict.NOT_MET, {"second": answer(**{IBP: "3.8-IV0"})}, id="R2 two of them"),
        pytest.param("R2", Verdict.DECIDE, {"first": answer(**{IBP: "3.5"})}, id="R2 for an older quorum"),
        pytest.param("R15", Verdict.DECIDE, {"first": answer(**{"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})}, id="R15 an authorizer"),
        pytest.param("R15", Verdict.DECIDE, {"changes": {"/kafka-acl/Topic/t": acl()}}, id="R15 ACLs without an authorizer"),
        pytest.param("R19", Verdict.NOT_MET, {"second": answer(sources={})}, id="R19 a generated id"),
        pytest.param("R20", Verdict.NOT_MET, {"second": answer(log_dirs={"/a": 56})}, id="R20 a failed directory"),
        pytest.param("R20", Verdict.NOT_MET, {"first": answer(log_dirs=JBOD, **{IBP: "3.7-IV1"})}, id="R20 several, too old for it"),
        pytest.param("R20", Verdict.MET, {"first": answer(log_dirs=JBOD, **{IBP: "3.7-IV2"})}, id="R20 several"),
        pytest.param("R20", Verdict.MET, {"first": answer(log_dirs=JBOD, **{IBP: "3.7"})}, id="R20 several, the last of 3.7"),
        pytest.param("R20", Verdict.MET, {"first": answer(**{IBP: "3.6-IV2"})}, id="R20 one, whatever the version"),
        pytest.param("R21", Verdict.DECIDE, {"second": answer(**{"inter.broker.listener.name": "INTERNAL"})}, id="R21 two names"),
        pytest.param("R22", Verdict.DECIDE, {"second": answer(**{"control.plane.listener.name": "CONTROLLER"})}, id="R22 a control plane"),
        pytest.param("R22", Verdict.MET, {}, id="R22 none"),
    ],
)  # fmt: skip
def test_an_answer_changes_the_verdict(rule, verdict, given):
    assert judged(**given)[rule].verdict is verdict


def test_a_password_is_told_as_set_and_not_shown():
    set_on_1 = answer(sources={"broker.id": "STATIC_BROKER_CONFIG", "password.encoder.secret": "STATIC_BROKER_CONFIG"})
    found = judged(set_on_1, answer(), changes={"/config/brokers/1": config(**{"ssl.key.password": "x"})})["R13"]
    assert found.verdict is Verdict.DECIDE
    assert "password.encoder.secret is set on brokers [1]" in found.evidence[-1]


def test_silence_is_no_answer():
    found = judged(silent={2: "TimeoutError"})
    assert {rule for rule, each in found.items() if each.verdict is Verdict.ASK} >= {"R15", "R19", "R20", "R22"}
    assert any("broker 2 did not answer: TimeoutError" in each for each in found["R19"].evidence)
    assert judged(answer(log_dirs={"/a": 56}), silent={2: "x"})["R20"].verdict is Verdict.NOT_MET
    assert found["R13"] == found["R16"] == Judged(Verdict.MET)  # by the snapshot, whoever is silent


def test_where_nobody_answers_each_question_says_who_was_silent():
    found = judged(silent={1: "not allowed", 2: "TimeoutError"})
    before = certify(tree(), MANIFEST).judged
    for rule in ("R1", "R2", "R15", "R19", "R20", "R21", "R22", "R23"):
        assert found[rule].verdict is before[rule].verdict is Verdict.ASK
        assert found[rule].evidence[:-2] == before[rule].evidence
        assert found[rule].evidence[-2].startswith("broker 1 did not answer: not allowed (brokers, ")


def test_a_registered_broker_that_was_not_found_is_silent():
    found = with_answers(certify(tree(), MANIFEST), tree(), Answers(NOW, {1: answer()}, {}))
    assert found.judged["R19"].verdict is Verdict.ASK
    assert any("broker 2 did not answer" in each for each in found.judged["R19"].evidence)


@pytest.mark.kafka
def test_real_brokers_are_asked(tmp_path, capsys):
    with KafkaCluster("3.9", brokers=2, mode="shared_jvm") as kafka:
        arguments = ["--cluster", "blue", "--store", str(tmp_path)]
        assert main(["snapshot", "--zookeeper", kafka.zookeeper_connect, *arguments]) == 0
        capsys.readouterr()
        asked = ["--bootstrap-servers", kafka.bootstrap_servers, "--json"]
        assert main(["kraft", "readiness", *arguments, *asked]) == 0
        found = json.loads(capsys.readouterr().out)
    rules = {rule["id"]: rule for rule in found["rules"]}
    assert found["asked_at"].endswith("+00:00")
    assert {rule for rule in rules if rules[rule]["verdict"] == "ask"} == {"R1", "R2", "R17", "R18", "R21", "R23"}
    assert rules["R1"]["evidence"][0].startswith("brokers answer as Kafka 3.9; the patch level is unknown (brokers, ")
    assert "inter.broker.protocol.version is 3.9-IV0" in rules["R2"]["evidence"][0]
    assert rules["R19"]["verdict"] == rules["R20"]["verdict"] == "met"


@pytest.mark.kafka
def test_what_real_brokers_do_not_allow_is_no_answer(tmp_path):
    authorizer = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    nobody = ACL(
        principal="User:nobody",
        host="*",
        operation=ACLOperation.DESCRIBE,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
    )
    with KafkaCluster("3.9", brokers=1, mode="shared_jvm", config=authorizer) as kafka:
        brokers = BrokersAsked(kafka.bootstrap_servers)
        assert (
            ask_brokers(brokers, NOW).brokers[1].settings["authorizer.class.name"]
            == authorizer["authorizer.class.name"]
        )
        with admin_client("rights taken away", brokers, 30, NoBrokerAnsweredError) as admin:
            admin.create_acls([nobody])
        wait_until(lambda: ask_brokers(brokers, NOW).silent, timeout_s=30, what="the ACL to count")
        found = ask_brokers(brokers, NOW)
    assert not found.brokers
    assert "allow this user to describe the cluster and its configs" in found.silent[1]
