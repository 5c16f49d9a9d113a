"""How leniently znodes are read, and what is said of those that cannot be."""

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller_core import znodes
from controller_core.model.errors import MalformedZnodeError, UnparsedZnodeError
from controller_core.model.partitions import (
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.znodes import ScalaVersion
from controller_core.znodes.configs import positive_setting
from controller_core.znodes.json_text import Fraction, fields_of, json_text, parse
from tests.controller_core.znodes.cases import CASES

STATE = "/brokers/topics/t/partitions/0/state"
TOPIC = "/brokers/topics/t"
BROKER = "/brokers/ids/3"
REASSIGN = "/admin/reassign_partitions"
SAMPLES = {case.values[0]: case.values[2] for case in CASES}


def read(path, text):
    return znodes.decode_znode(text.encode(), path=path, version=7, czxid=9)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        pytest.param(
            STATE,
            ' {"isr":[2],"leader":2,"leader_epoch":3,"controller_epoch":4} trailing',
            LeaderAndIsr(2, 3, (2,), partition_epoch=7, controller_epoch=4),
            id="another key order, white space, no version, garbage after it",
        ),
        pytest.param(
            STATE,
            '\ufeff{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":2,"isr":[],"leader_recovery_state":1}',
            LeaderAndIsr(-1, 2, (), LeaderRecoveryState.RECOVERING, 7, 1),
            id="a byte order mark",
        ),
        pytest.param(
            STATE,
            '{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":2,"isr":[]}',
            LeaderAndIsr(-1, 2, (), partition_epoch=7, controller_epoch=1),
            id="nobody in sync",
        ),
        pytest.param(TOPIC, "{}", znodes.TopicZnode({}, None, 1), id="a topic without partitions"),
        pytest.param(
            TOPIC,
            '{"partitions":{"0":[1]},"adding_replicas":{"9":"unused"},"version":2,"later":{"x":[1.50,null,true]}}',
            znodes.TopicZnode({0: ReplicaAssignment((1,))}, None, 2, (("later", '{"x":[1.50,null,true]}'),)),
            id="unknown fields are kept to the digit",
        ),
        pytest.param(
            STATE,
            '{"controller_epoch":1,"leader":9,"version":99,"leader_epoch":0,"isr":[1],"later":7}',
            LeaderAndIsr(9, 0, (1,), partition_epoch=7, controller_epoch=1, extra=(("later", "7"),)),
            id="a state of a future version",
        ),
        pytest.param(
            TOPIC,
            '{"version":99,"partitions":{"0":[1]},"later":{"a":1}}',
            znodes.TopicZnode({0: ReplicaAssignment((1,))}, None, 99, (("later", '{"a":1}'),)),
            id="a topic of a future version",
        ),
        pytest.param("/controller", "3", znodes.ControllerZnode(broker_id=3, version=0, kraft_controller_epoch=None), id="the controller of 0.8.0"),
        pytest.param(
            "/controller",
            '{"brokerid":2,"timestamp":17}',
            znodes.ControllerZnode(broker_id=2, timestamp="17", version=1, kraft_controller_epoch=None),
            id="a controller's time as a number",
        ),
        pytest.param("/config/topics/t", "", znodes.ConfigZnode({}), id="overrides without data"),
        pytest.param("/config/topics/t", '{"version":1}', znodes.ConfigZnode({}), id="overrides without config"),
        pytest.param("/latest_producer_id_block", "", None, id="producer ids before their first use"),
        pytest.param("/kafka-acl/Topic/t", "", (), id="an ACL without data"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":"4","replicas":[1]}]}', {TopicPartition("t", 4): (1,)}, id="a partition number as text, since 2.0"),
        pytest.param(
            TOPIC,
            '{"partitions":{"00":[1]},"version":"two"}',
            znodes.TopicZnode({0: ReplicaAssignment((1,))}, None, 1),
            id="a version that nobody looks at",
        ),
        pytest.param(
            REASSIGN,
            '{"version":1.5,"partitions":[{"topic":7,"partition":1.5,"replicas":[]},{"topic":1.5,"replicas":[]}]}',
            {TopicPartition("7", 1): (), TopicPartition("1.5", 0): ()},
            id="scalars by their text, since 2.0",
        ),
        pytest.param(REASSIGN, '{"version":9,"partitions":[{"topic":"t","replicas":[1]}]}', {TopicPartition("t", 0): (1,)}, id="no partition number, since 2.0"),
        pytest.param(REASSIGN, '{"version":"1","partitions":[{"topic":"t","partition":null,"replicas":[]}]}', {TopicPartition("t", 0): ()}, id="nulls and text, since 2.0"),
        pytest.param("/admin", "whatever", None, id="a parent"),
        pytest.param("/log_dir_event_notification/log_dir_event_0000000001", '{"broker":4}', znodes.LogDirEvent(4), id="an event without a kind"),
        pytest.param("/isr_change_notification/isr_change_-2147483648", '{"partitions":[{"topic":"a","partition":1},{"topic":"a","partition":1}]}', (TopicPartition("a", 1),), id="a partition named twice, after the counter wrapped"),
        pytest.param("/migration", '{"version":0,"kraft_metadata_offset":-1,"kraft_controller_id":-1,"kraft_metadata_epoch":-1}', znodes.MigrationZnode(), id="a migration that is prepared"),
    ],
)  # fmt: skip
def test_what_kafka_reads_is_read(path, text, value):
    assert read(path, text) == value


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        pytest.param(STATE, "{", "offset 1", id="truncated"),
        pytest.param(STATE, "", "no data", id="empty"),
        pytest.param(STATE, '{"leader":NaN}', "NaN", id="no number"),
        pytest.param(STATE, "[" * 100_000, "deeply", id="nested deeply"),
        pytest.param(STATE, f'{{"leader":{"1" * 5000}}}', "offset 0", id="a number of 5,000 digits"),
        pytest.param(STATE, '{"leader":"\\ud800"}', "surrogate", id="half a surrogate pair"),
        pytest.param(REASSIGN, '{"version":1,"partitions":[],"log_dirs":[]}', "'log_dirs'", id="an unknown field"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":0,"replicas":[],"x":1}]}', "partitions\\[0\\].x", id="an unknown field in an entry"),
        pytest.param(REASSIGN, '{"version":1e999}', "32-bit", id="a version beyond all numbers"),
        pytest.param(REASSIGN, '{"version":2147483648}', "32-bit", id="a version too large"),
        pytest.param(REASSIGN, "[]", "an object", id="no object"),
        pytest.param(REASSIGN, '{"partitions":7}', "an array", id="no list"),
        pytest.param(REASSIGN, '{"partitions":[7]}', "partitions\\[0\\]", id="no object in the list"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":"x","replicas":[]}]}', "decimal", id="no number"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":true,"replicas":[]}]}', "integer", id="a boolean"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":["t"],"partition":0,"replicas":[]}]}', "a string", id="a list as topic"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":0,"replicas":7}]}', "an array", id="a number as replicas"),
    ],
)  # fmt: skip
def test_kafka_goes_on_as_if_it_were_empty(path, text, what):
    with pytest.raises(UnparsedZnodeError, match=what) as refusal:
        read(path, text)
    assert str(refusal.value).startswith(path)


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        pytest.param(STATE, "7", "an object", id="no object"),
        pytest.param(STATE, '{"leader":1}', "'leader_epoch' is missing", id="a field missing"),
        pytest.param(STATE, '{"leader":"1"}', "'leader': expected an integer, found a string", id="text for a number"),
        pytest.param(STATE, '{"leader":1.0}', "a fraction, 1.0", id="a fraction"),
        pytest.param(STATE, '{"leader":true}', "a boolean", id="a boolean"),
        pytest.param(STATE, '{"controller_epoch":1,"leader":4294967296,"version":1,"leader_epoch":0,"isr":[1]}', "'leader': expected -2147483648", id="too large"),
        pytest.param(STATE, '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,4294967296]}', "isr\\[1\\]", id="too large in a list"),
        pytest.param(STATE, '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":7}', "an array", id="no list"),
        pytest.param(STATE, '{"controller_epoch":1,"leader":1,"leader_epoch":0,"isr":[1],"leader_recovery_state":2}', "0 to 1", id="unknown recovery state"),
        pytest.param(TOPIC, '{"partitions":{"x":[1]}}', "key of 'partitions'", id="no partition number"),
        pytest.param(TOPIC, '{"partitions":{"99999999999":[1]}}', "99999999999", id="too large a partition number"),
        pytest.param(TOPIC, '{"partitions":[]}', "an object", id="partitions as a list"),
        pytest.param(TOPIC, '{"topic_id":"short"}', "base64", id="no topic id"),
        pytest.param(TOPIC, '{"later":' + "[" * 700 + "]" * 700 + "}", "deeply", id="an unknown field nested too deeply"),
        pytest.param(TOPIC, '{"partitions":' + "[" * 700 + "]" * 700 + "}", "an object", id="a field nested too deeply to show"),
        pytest.param(BROKER, '{"version":0}', "'version'", id="version 0"),
        pytest.param(BROKER, '{"version":4,"endpoints":["nonsense"]}', "NAME://host:port", id="no endpoint"),
        pytest.param(BROKER, '{"version":4,"endpoints":["A://h:99999999999"]}', "NAME://host:port", id="no port"),
        pytest.param(BROKER, '{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{"B":"SSL"}}', "listener 'A'", id="an unknown listener"),
        pytest.param(BROKER, '{"version":4,"endpoints":"A"}', "an array", id="endpoints as text"),
        pytest.param("/brokers/ids/x", '{"version":1,"host":"h","port":1}', "broker id", id="no broker id"),
        pytest.param("/brokers/seqid", "7", "no data", id="data where none is"),
        pytest.param("/controller", "99999999999", "broker id", id="too large a controller"),
        pytest.param("/controller", '{"brokerid":1,"timestamp":null}', "'timestamp'", id="no time"),
        pytest.param("/controller_epoch", "five", "decimal", id="no epoch"),
        pytest.param("/controller_epoch", "99999999999", "found 99999999999", id="too large an epoch"),
        pytest.param("/feature", '{"version":3,"status":1,"features":{}}', "'version'", id="unknown features"),
        pytest.param("/config/changes/config_change_0000000001", '{"version":2,"entity_path":"topics"}', "<type>/<name>", id="no entity"),
        pytest.param("/config/topics/t", '{"config":{"a":1}}', "'config.a'", id="a value that is no text"),
        pytest.param("/kafka-acl-changes/acl_changes_0000000001", "Topic", "<ResourceType>", id="no resource"),
        pytest.param("/kafka-acl-extended-changes/acl_changes_0000000001", '{"version":1,"x":1}', "'x'", id="unknown field"),
        pytest.param("/consumers/g/owners/t/0", "", "no data", id="no owner"),
        pytest.param(REASSIGN, "{}", "'partitions' is missing", id="no partitions"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "replicas\\[0\\]", id="text in a list"),
        pytest.param(REASSIGN, '{"partitions":[{"topic":"t","partition":0}]}', "replicas' is missing", id="no replicas"),
    ],
)  # fmt: skip
def test_kafka_throws(path, text, what):
    with pytest.raises(MalformedZnodeError, match=what) as refusal:
        read(path, text)
    assert not isinstance(refusal.value, UnparsedZnodeError)
    assert (refusal.value.path, refusal.value.what in str(refusal.value)) == (path, True)


def test_bytes_that_are_no_text_are_named_by_offset():
    with pytest.raises(UnparsedZnodeError, match="offset 2"):
        znodes.decode_topic(b'{"\xff"}', path=TOPIC)
    with pytest.raises(MalformedZnodeError, match="offset 1"):
        znodes.decode_token_change(b"a\xff", path="/delegation_token/token_changes/token_change_0000000000")


def test_kafka_up_to_1_1_reads_requests_by_their_tree():
    old = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    assert znodes.decode_reassign_partitions(old.encode(), bound_to_class=False) == {TopicPartition("t", 0): (1,)}
    assert znodes.decode_reassign_partitions(b"{}", bound_to_class=False) == {}
    with pytest.raises(MalformedZnodeError):
        znodes.decode_reassign_partitions(
            b'{"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}', bound_to_class=False
        )


def test_a_listener_is_its_protocol_where_no_map_says_otherwise():
    assert znodes.parse_endpoint("ssl://[::1]:9093", None) == Endpoint("::1", 9093, "SSL", "SSL")


def test_broker_features_come_back():
    znode = znodes.decode_broker(
        b'{"version":5,"endpoints":[],"features":{"f":{"min_version":1,"max_version":3}}}', path=BROKER
    )
    assert znode.broker.features == (("f", (1, 3)),)
    assert b'"features":{"f":{"min_version":1,"max_version":3}}' in znodes.encode_broker(znode)


@pytest.mark.parametrize(("epoch", "claimed"), [(None, False), (-1, False), (0, True), (4, True)])
def test_who_claims_the_cluster_for_kraft(epoch, claimed):
    assert znodes.ControllerZnode(broker_id=1, kraft_controller_epoch=epoch).is_kraft is claimed


def test_version_1_of_a_topic_cannot_say_that_replicas_move():
    moving = znodes.TopicZnode({0: ReplicaAssignment((1, 2), (2,))}, version=1)
    with pytest.raises(ValueError, match="version 1"):
        znodes.encode_topic(moving)


def test_what_is_no_json_cannot_be_written():
    with pytest.raises(TypeError, match="object"):
        json_text(object())


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (b'{"isr":{}}', "field 'isr': expected an array of integers, found an object"),
        (b'{"isr":[1,"2"]}', "field 'isr[1]': expected an integer, found a string"),
    ],
)
def test_a_list_of_integers_that_is_none_is_told_by_what_is_wrong_in_it(found, words):
    assert fields_of("/x", parse(b'{"isr":[2,1]}', "/x"), "").integers("isr") == (2, 1)
    with pytest.raises(MalformedZnodeError, match=re.escape(words)):
        fields_of("/x", parse(found, "/x"), "").integers("isr")


def test_fractions_keep_their_text():
    assert json_text(parse(b"[1.50,1E400]", "/x")) == "[1.50,1E400]"
    assert Fraction("1.50").text == "1.50"


PATHS = sorted({*SAMPLES, "/delegation_token/tokens/x", "/kafka-acl-extended/prefixed/Topic/t"})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "version", "leader", "leader_epoch", "isr", "controller_epoch", "leader_recovery_state", "partitions", "0", "topic_id",
    "adding_replicas", "removing_replicas", "endpoints", "host", "port", "rack", "features", "topic", "partition", "replicas",
    "broker", "config", "brokerid", "timestamp", "kraftControllerEpoch", "acls", "status", "entity_path", "block_start", "id",
    "listener_security_protocol_map", "renewers", "owner", "tokenId",
]  # fmt: skip
DOCUMENTS = st.recursive(
    VALUES, lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6) | st.lists(inner, max_size=3)
)


def read_or_refuse(path, data):
    try:
        return znodes.decode_znode(data, path=path, version=1, czxid=1)
    except MalformedZnodeError as error:
        assert error.path == path
        assert str(error)
        return None


@given(path=st.sampled_from(PATHS), data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(path, data):
    read_or_refuse(path, data)


@settings(max_examples=300)
@given(path=st.sampled_from(PATHS), document=DOCUMENTS)
@example(path=STATE, document={"leader": "\ud800"})
def test_any_json_is_read_or_refused(path, document):
    read_or_refuse(path, json.dumps(document).encode())


@given(case=st.sampled_from(CASES), data=st.data())
def test_damaged_znodes_are_read_or_refused(case, data):
    path, _, whole, _ = case.values
    cut = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.binary(max_size=3))
    read_or_refuse(path, whole[:cut] + junk + whole[cut + data.draw(st.integers(0, 3)) :])
    read_or_refuse(path, whole[:cut])


IDS = st.integers(-(2**31), 2**31 - 1)
EXTRA = st.dictionaries(
    st.text(max_size=8).map("x".__add__), st.sampled_from(["1.50", "null", '{"a":[true]}']), max_size=2
)


@given(
    state=st.builds(
        LeaderAndIsr,
        leader=IDS,
        leader_epoch=IDS,
        isr=st.lists(IDS, max_size=5).map(tuple),
        recovery=st.sampled_from(LeaderRecoveryState),
        partition_epoch=st.just(7),
        controller_epoch=IDS,
        extra=EXTRA.map(lambda extra: tuple(extra.items())),
    )
)
def test_states_come_back(state):
    assert znodes.decode_state(znodes.encode_state(state), path=STATE, version=7) == state


@given(
    assignments=st.dictionaries(
        st.integers(0, 100),
        st.builds(ReplicaAssignment, *[st.lists(IDS, max_size=3).map(tuple)] * 3),
        max_size=20,
    ),
    scala=st.sampled_from(ScalaVersion),
)
def test_topics_come_back(assignments, scala):
    topic = znodes.TopicZnode(assignments, "3tRvjlrmRXmsYOMp9Fg0AA", 3)
    assert znodes.decode_topic(znodes.encode_topic(topic, scala=scala), path=TOPIC) == topic


@given(targets=st.dictionaries(st.builds(TopicPartition, st.text(), st.integers(0, 9)), st.lists(IDS).map(tuple)))
def test_requests_come_back(targets):
    assert znodes.decode_reassign_partitions(znodes.encode_reassign_partitions(targets)) == targets
    partitions = tuple(targets)
    assert znodes.decode_preferred_replica_election(znodes.encode_preferred_replica_election(partitions)) == partitions


@pytest.mark.parametrize(
    ("text", "number"),
    [("2", 2), (" 2\n", 2), ("+3", 3), ("2147483647", 2147483647), ("2147483648", None), ("0", None), ("-1", None), ("2.0", None), ("x", None), ("", None)],
)  # fmt: skip
def test_an_integer_setting_is_read_as_kafka_parses_it(text, number):
    assert positive_setting(text) == number


@given(config=st.dictionaries(st.text(), st.text(), max_size=30))
def test_configs_come_back(config):
    znode = znodes.ConfigZnode(config)
    assert znodes.decode_config(znodes.encode_config(znode), path="/config/topics/t") == znode
