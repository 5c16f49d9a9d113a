"""The certificate: a healthy tree raises no alarm, and each damage of a tree is told by exactly the rules that concern it.

What real Kafka 3.9.2 does with each of these trees stands in docs/kraft.md, by the number in the id.
"""

from datetime import timedelta

import pytest

from controller_core.adapters.snapshot.secrets import SECRET, is_secret, public_config
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.certificate import (
    certificate_json,
    certificate_text,
    certify,
    changes_since,
    is_ready,
)
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.phase import PhaseId, phase_of
from spark_jobs.kraft.rules import RULES
from spark_jobs.kraft.tree import Tree
from tests.kafka_maintenance.operations.kraft.trees import (
    BROKER,
    GONE,
    KRAFT,
    MANIFEST,
    MIGRATION,
    NOW,
    STATE,
    TOPIC,
    acl,
    config,
    encoded,
    state,
    topic,
    tree,
)
from tests.source_files import ROOT

DOCUMENT = (ROOT / "docs" / "kraft.md").read_text(encoding="utf-8")


def verdicts(found):
    judged = certify(found, MANIFEST).judged
    return {verdict: {rule for rule, each in judged.items() if each.verdict is verdict} for verdict in Verdict}


def test_a_healthy_tree_raises_no_alarm():
    found = verdicts(tree())
    assert found[Verdict.NOT_MET] == found[Verdict.DECIDE] == set()
    assert found[Verdict.ASK] == {"R1", "R2", "R15", "R17", "R18", "R19", "R20", "R21", "R22", "R23"}
    assert is_ready(certify(tree(), MANIFEST))


@pytest.mark.parametrize("root", ["/config/users", "/kafka-acl"])
def test_a_tree_deeper_than_calls_nest_is_judged(root):
    deep = root + "/x" * 2000
    assert list(tree({deep: b""}).below(root))[-1] == deep
    assert certify(tree({deep: b""}), MANIFEST).judged


def test_every_rule_is_there_once_and_in_order():
    assert [rule.id for rule in RULES] == [f"R{number}" for number in range(1, 26)]


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        pytest.param({TOPIC: {"version": 2, "partitions": {"0": [1, 2]}}}, {"R2", "R3"}, id="E1 no topic_id"),
        pytest.param({TOPIC: b"garbage"}, {"R3"}, id="E1 garbage"),
        pytest.param({TOPIC: b""}, {"R3"}, id="E1 empty"),
        pytest.param({TOPIC: None}, {"R3"}, id="E1 null"),
        pytest.param({TOPIC: topic(1, 2, topic_id="???")}, {"R3"}, id="E2 id not base64"),
        pytest.param({TOPIC: topic(partitions={"a": [1]})}, {"R3"}, id="E2 partition not a number"),
        pytest.param({"/brokers/topics/t2": topic(1), "/brokers/topics/t2/partitions/0/state": state(1, [1])}, {"R3"}, id="E3 one id twice"),
        pytest.param({TOPIC: topic(1, 2, topic_id="A" * 22)}, {"R3"}, id="E3 zeros"),
        pytest.param({TOPIC: topic(1, 2, 9)}, {"R4"}, id="E4 an unregistered broker"),
        pytest.param({"/brokers/ids/x": BROKER}, {"R4"}, id="E5 an id that is no number"),
        pytest.param({"/brokers/ids/2147483648": BROKER}, {"R4"}, id="E5 an id beyond 32 bits"),
        pytest.param({STATE: GONE}, {"R6"}, id="E6 no state"),
        pytest.param({STATE: b"garbage"}, {"R6"}, id="E6 garbage"),
        pytest.param({STATE: b""}, {"R6"}, id="E7 empty"),
        pytest.param({STATE: None}, {"R6"}, id="E7 null"),
        pytest.param({STATE: {"leader": 1}}, {"R6"}, id="E7 a field is missing"),
        pytest.param({TOPIC: topic(), STATE: GONE}, {"R6", "R7"}, id="E10 no replicas"),
        pytest.param({"/config/topics/orders": b'{"version":1,"config":{"retention.ms":5}}'}, {"R10"}, id="E15 a value is a number"),
        pytest.param({"/config/brokers/abc": config()}, {"R10"}, id="E20 a broker that is no number"),
        pytest.param({"/config/brokers/2147483648": config()}, {"R10"}, id="E20 a broker beyond 32 bits"),
        pytest.param({"/config/users/ada": config(producer_byte_rate="abc")}, {"R12"}, id="E23 a quota is text"),
        pytest.param({"/config/users/ada": config(request_percentage="٣")}, {"R12"}, id="E23 digits of another script"),
        pytest.param({"/config/users/100%": config()}, {"R12"}, id="E23 a name that cannot be decoded"),
        pytest.param({"/config/users/u/clients/c": config(**{"SCRAM-SHA-256": "x"})}, {"R12"}, id="E23 SCRAM below a client"),
        pytest.param({"/config/users/ada": config(no_such_rate="5")}, {"R12"}, id="E24 an unknown quota"),
        pytest.param({"/config/clients/c": config(consumer_byte_rate="2048.5")}, {"R12"}, id="E24 a fraction"),
        pytest.param({"/config/ips/10.0.0.1": config(connection_creation_rate="5.5")}, {"R12"}, id="E24 a fraction of an ip"),
        pytest.param({"/config/users/ada": config(producer_byte_rate="-1")}, {"R12"}, id="E24 a negative rate"),
        pytest.param({"/config/users/ada": config(consumer_byte_rate="9223372036854775808")}, {"R12"}, id="E24 a rate beyond 64 bits"),
        pytest.param({"/config/ips/10.0.0.1": config(connection_creation_rate="2147483648")}, {"R12"}, id="E24 a rate of an ip beyond 32 bits"),
        pytest.param({"/config/users/ada": config(request_percentage="1e400")}, {"R12"}, id="E24 more than a double holds"),
        pytest.param({"/kafka-acl/Widget/w": acl()}, {"R14"}, id="E28 an unknown type"),
        pytest.param({"/kafka-acl/Topic/t": acl(operation="Fly")}, {"R14"}, id="E28 an unknown operation"),
        pytest.param({"/kafka-acl/Topic/t": b""}, {"R14"}, id="E28 empty"),
        pytest.param({"/kafka-acl-extended/prefixed/Topic/t": b"garbage"}, {"R14"}, id="E28 garbage"),
        pytest.param({"/kafka-acl/Topic/t": acl(principal="ada")}, {"R14"}, id="E29 a principal without a type"),
        pytest.param({"/kafka-acl/Topic/t": acl(version=2)}, {"R14"}, id="E29 version 2"),
        pytest.param({"/latest_producer_id_block": b""}, {"R7"}, id="E31 empty producer ids"),
        pytest.param({"/controller_epoch": GONE}, {"R5"}, id="E32 no controller epoch"),
        pytest.param({"/controller_epoch": b""}, {"R5"}, id="E32 an empty one"),
        pytest.param({"/controller": {**KRAFT, "kraftControllerEpoch": 7}}, {"R5"}, id="E32 left-over epoch 7"),
        pytest.param({"/migration": b""}, {"R5"}, id="E32 an empty /migration"),
        pytest.param({"/migration": None}, {"R5"}, id="KAFKA-19480 a null /migration"),
        pytest.param({"/migration": MIGRATION}, {"R5"}, id="the most dangerous: a /migration left over"),
        pytest.param({"/cluster/id": GONE}, {"R17"}, id="no cluster id"),
        pytest.param({"/controller": {"version": 1, "brokerid": 1, "timestamp": "1"}}, {"R1"}, id="Kafka before 3.4"),
    ],
)  # fmt: skip
def test_each_damage_is_told_by_the_rules_that_concern_it(changes, rules):
    found = certify(tree(changes), MANIFEST)
    assert set(found.obstacles) == rules
    assert not is_ready(found)
    for rule in rules:
        assert found.judged[rule].evidence


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        pytest.param({STATE: state(leader=2, isr=[1])}, {"R8"}, id="E9 leader not in the ISR"),
        pytest.param({STATE: state(leader=-1, isr=[2])}, {"R8"}, id="E9 no leader"),
        pytest.param({STATE: state(isr=[1, 9])}, {"R8"}, id="E9 a stranger in the ISR"),
        pytest.param({TOPIC: topic(1, 1), STATE: state(1, [1])}, {"R8"}, id="E11 a broker twice"),
        pytest.param({"/config/topics/gone": config()}, {"R11"}, id="E14 a config without its topic"),
        pytest.param({"/config/topics/orders": config(**{"retention.ms": "abc"})}, {"R11"}, id="E15 an invalid value"),
        pytest.param({"/config/topics/orders": b"garbage"}, {"R11"}, id="E15 no JSON"),
        pytest.param({"/admin/reassign_partitions": b"{}"}, {"R9"}, id="E16 a request"),
        pytest.param({"/isr_change_notification/isr_change_0000000001": b"{}"}, {"R9"}, id="E16 a notice"),
        pytest.param({TOPIC: topic(1, 2, adding_replicas={"0": [2]})}, {"R9"}, id="E17 a reassignment"),
        pytest.param({"/admin/delete_topics/orders": None}, {"R9"}, id="E18 a queued topic"),
        pytest.param({"/kafka-acl/Topic/t": acl()}, {"R15"}, id="E27 ACLs"),
        pytest.param({"/delegation_token/tokens/t": b"{}"}, {"R16"}, id="E30 tokens"),
        pytest.param({"/brokers/seqid": None}, {"R19"}, id="R19 generated ids"),
        pytest.param({"/config/brokers/1": config(listeners="x")}, {"R22"}, id="R22 dynamic listeners"),
        pytest.param({"/consumers/g/offsets": None}, {"R24"}, id="E39 old consumers"),
        pytest.param({"/spark/x": b"y"}, {"R24"}, id="E39 a foreign tree"),
        pytest.param({"/config/widgets/w": config()}, {"R24"}, id="E39 an unknown type of config"),
    ],
)  # fmt: skip
def test_what_people_decide_first_is_no_obstacle(changes, rules):
    found = verdicts(tree(changes))
    assert found[Verdict.DECIDE] == rules
    assert found[Verdict.NOT_MET] == set()


def test_what_was_not_read_is_not_judged_and_named():
    path = "/config/users/ada"
    found = certify(tree(unread={path: "no permission"}), MANIFEST)
    assert found.verdicts(Verdict.DECIDE) == ("R25",)
    assert found.judged["R25"].evidence == (f"{path}: not read, so not judged",)


def test_a_secret_broker_config_is_told_without_its_content():
    changes = {"/config/brokers/1": config(**{"ssl.key.password": "geheim"})}
    found = certify(tree(changes, unread={"/config/brokers/1": "secret"}), MANIFEST)
    assert found.verdicts(Verdict.DECIDE) == ("R13",)
    assert "geheim" not in certificate_text(found, NOW)


@pytest.mark.parametrize(
    ("changes", "phase", "may_write"),
    [
        pytest.param({}, PhaseId.ZOOKEEPER, True, id="P0"),
        pytest.param({"/migration": {**MIGRATION, "kraft_metadata_offset": -1}}, PhaseId.QUORUM_STARTED, False, id="P1, P2"),
        pytest.param({"/migration": {**MIGRATION, "kraft_metadata_offset": -1}, "/controller": KRAFT}, PhaseId.CLAIMED, False, id="claimed"),
        pytest.param({"/migration": MIGRATION, "/controller": KRAFT}, PhaseId.HYBRID, False, id="P3"),
        pytest.param({"/migration": MIGRATION, "/controller": KRAFT, "/brokers/ids/2": GONE}, PhaseId.PARTLY_KRAFT, False, id="P4"),
        pytest.param({"/migration": MIGRATION, "/controller": KRAFT, "/brokers/ids/1": GONE, "/brokers/ids/2": GONE},
                     PhaseId.ALL_KRAFT, False, id="P5, P6"),
        pytest.param({"/migration": MIGRATION}, PhaseId.LEFT_OVER, False, id="a way back that forgot /migration"),
        pytest.param({"/controller": KRAFT}, PhaseId.LEFT_OVER, False, id="a way back that forgot /controller"),
    ],
)  # fmt: skip
def test_the_phase_is_read_from_the_tree(changes, phase, may_write):
    found = phase_of(tree(changes))
    assert (found.id, found.may_write) == (phase, may_write)


def test_the_text_puts_obstacles_first_and_says_when_it_expires():
    found = certify(tree({TOPIC: topic(1, 2, 9), "/config/topics/gone": config()}), MANIFEST)
    text = certificate_text(found, NOW)
    assert text.startswith("blue: 1 obstacles. Phase P0")
    assert text.index("NOT MET") < text.index("DECIDE FIRST") < text.index("ASK") < text.index("MET: ")
    assert "broker 9 is missing; it holds orders-0" in text
    assert "EXPIRED" not in text
    assert "EXPIRED" in certificate_text(found, NOW + timedelta(days=2))
    assert certificate_json(found)["obstacles"] == ["R4"]


def test_a_certificate_counts_no_more_when_what_it_judged_has_changed():
    before = certificate_json(certify(tree({"/config/topics/gone": config()}), MANIFEST))
    assert changes_since(before, certify(tree({"/config/topics/gone": config()}), MANIFEST)) == ()
    now = certify(tree({"/config/topics/other": config(), TOPIC: topic(1, 2, 9), "/migration": MIGRATION}), MANIFEST)
    assert changes_since(before, now) == (
        "phase: P0 before, left over now",
        "R4 brokers of all replicas: met before, not met now",
        "R5 no trace of a migration: met before, not met now",
        "R11 configs of topics: decide first before, decide first now, with other evidence",
        "R18 ids of controllers: ask before, ask now, with other evidence",
    )
    with pytest.raises(BadInputError, match="found one of 'green'; name that file"):
        changes_since({**before, "cluster": "green"}, now)
    with pytest.raises(BadInputError, match="found another document"):
        changes_since({}, now)


def test_the_page_lists_the_rules_as_they_are():
    rows = [line.split(" | ") for line in DOCUMENT.splitlines() if line.startswith("| R")]
    assert [[cell.strip("| ") for cell in row] for row in rows] == [
        [rule.id, rule.title, rule.judge.__doc__.split(": ", 1)[1].strip(), rule.ignored, rule.mend] for rule in RULES
    ]


@pytest.mark.parametrize(
    ("path", "settings", "told"),
    [
        ("/config/users/ada", {"SCRAM-SHA-512": "x", "producer_byte_rate": "1"}, ()),
        ("/config/users/ada", {"SCRAM-SHA-512": "x", "note": "y"}, ("/config/users/ada: note is no quota of users",)),
        ("/config/users/ada", {"our.password": "y"}, ("/config/users/ada: our.password is no quota of users",)),
        ("/config/clients/c", {"note": "y"}, ("/config/clients/c: note is no quota of clients",)),
        (
            "/config/users/ada/clients/c",
            {"SCRAM-SHA-512": "x"},
            ("/config/users/ada/clients/c: credentials stand elsewhere than directly under a user",),
        ),
    ],
)
def test_r12_sees_the_name_of_every_setting_in_a_snapshot_without_secrets(path, settings, told):
    data = encoded({"version": 1, "config": settings})
    assert is_secret(path, data)
    secret = tree({path: data}, unread={path: SECRET})
    found = certify(Tree(secret.znodes, {path: public_config(path, data)}), MANIFEST).judged["R12"]
    assert found.evidence == told
