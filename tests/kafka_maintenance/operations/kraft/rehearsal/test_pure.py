"""What a rehearsal decides without a process: the copy, records read back, and which znode is at fault."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.asked import Answer, Answers
from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.rehearsal import real_brokers
from kafka_maintenance.operations.kraft.rehearsal.attempt import DUAL_WRITE, Attempt, Cost, End, await_end
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy, copy_of
from kafka_maintenance.operations.kraft.rehearsal.obstacle import (
    first_culprit,
    from_log,
    suspects,
    telling_lines,
    units,
)
from kafka_maintenance.operations.kraft.rehearsal.of_snapshot import repaired
from kafka_maintenance.operations.kraft.rehearsal.planned_broker import (
    Place,
    in_kraft_mode,
    in_migration_mode,
    listener_names,
    planned_broker,
    planned_by_answers,
)
from kafka_maintenance.operations.kraft.rehearsal.real_brokers import Mode, Refusal, WithBrokers, await_dual_write
from kafka_maintenance.operations.kraft.rehearsal.records import Migrated, Record, migrated
from kafka_maintenance.operations.kraft.rehearsal.report import Rehearsal, rehearsal_json, rehearsal_text
from kafka_maintenance.operations.kraft.rehearsal.run import (
    Outcome,
    Quorum,
    free_controller_id,
    pairs_of,
    planned_quorum,
    planned_settings,
)
from kafka_maintenance.operations.kraft.repairs import repairs
from tests.kafka_maintenance.operations.kraft.trees import (
    GONE,
    KRAFT,
    MANIFEST,
    MIGRATION,
    NOW,
    STATE,
    TOPIC,
    config,
    topic,
    tree,
)


def line(kind, data):
    return f"| offset: 1 payload: {json.dumps({'type': kind, 'version': 0, 'data': data})}\n"


BEGIN = line("BEGIN_TRANSACTION_RECORD", {"name": "ZK Migration"})


def test_only_the_transaction_of_the_migration_is_read_back():
    lines = [line("TOPIC_RECORD", {"name": "early"}), BEGIN, line("TOPIC_RECORD", {"name": "t"}), "noise\n",
             line("END_TRANSACTION_RECORD", {}), line("TOPIC_RECORD", {"name": "late"})]  # fmt: skip
    assert migrated(lines) == Migrated((Record("TOPIC", {"name": "t"}),), ended=True)
    assert not migrated(lines[:3]).ended
    assert not migrated([*lines[:3], line("ABORT_TRANSACTION_RECORD", {})]).ended


def test_secrets_of_records_are_never_kept():
    lines = [BEGIN, line("USER_SCRAM_CREDENTIAL_RECORD", {"name": "ada", "salt": "geheim", "storedKey": "geheim", "serverKey": "geheim", "iterations": 4}),
             line("CONFIG_RECORD", {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": "geheim"})]  # fmt: skip
    assert "geheim" not in repr(migrated(lines))
    assert migrated(lines).records[0].data["iterations"] == 4


def test_the_copy_keeps_null_and_drops_what_belongs_to_a_run():
    copy = copy_of(tree({"/controller": KRAFT, "/migration": MIGRATION, "/x": b""}))
    data = {znode.path: znode.data for znode in copy.znodes}
    assert (data["/latest_producer_id_block"], data["/x"], data["/brokers/ids/1"]) == (None, b"", b"")
    assert data.keys().isdisjoint({"/controller", "/migration"})
    assert data["/controller_epoch"] == b"1"
    paths = [znode.path for znode in copy.znodes]
    assert all(path.rpartition("/")[0] in {"", *paths[:at]} for at, path in enumerate(paths))


def test_a_secret_config_is_on_the_copy_with_its_public_part_or_opened():
    path = "/config/users/ada"
    secret = tree({path: config(producer_byte_rate="5")}, unread={path: "secret"})
    public = type(secret)(secret.znodes, {path: {"producer_byte_rate": "5"}})
    copy = copy_of(public)
    assert json.loads(copy.tree.data(path)) == config(producer_byte_rate="5")
    assert path in copy.left_out
    assert copy_of(public, {path: b"open"}).tree.data(path) == b"open"


def test_what_is_taken_away_goes_with_what_belongs_to_it():
    copy = copy_of(tree({"/admin/delete_topics/orders": None})).without(STATE)
    assert [path for path in copy.tree.znodes if "orders" in path] == []
    assert "/config/users/ada" in copy_of(tree()).without("/config/users/bob").tree


def failed(log, end=End.HANGS):
    return Attempt(end, "WAIT_FOR_BROKERS", log, Migrated((), ended=False), {}, {}, Cost(0, 0, 0, 0))


@pytest.mark.parametrize(
    ("log", "changes", "rule", "path"),
    [
        pytest.param("2026-01-01 00:00:00,0 ERROR Error in topic consumer. Topic was orders.\n", {}, "R3", TOPIC, id="the topic is named"),
        pytest.param("x Still waiting for ZK brokers [9] found in metadata to register with KRaft.", {TOPIC: topic(1, 9)}, "R4", "/brokers/ids/9", id="a broker"),
        pytest.param("x No brokers are registered in ZK, waiting", {"/brokers/ids/1": GONE, "/brokers/ids/2": GONE}, "R4", "/brokers/ids", id="nobody"),
        pytest.param("no ZK controller epoch present", {"/controller_epoch": GONE}, "R5", "/controller_epoch", id="no epoch"),
    ],
)  # fmt: skip
def test_a_line_of_the_log_that_names_the_znode_is_enough(log, changes, rule, path):
    obstacle, rest = from_log(copy_of(tree(changes)), failed(log))
    assert (obstacle.rule, obstacle.path) == (rule, path)
    assert not obstacle.line.startswith("2026")
    assert rest.tree.znodes != copy_of(tree(changes)).tree.znodes
    assert from_log(rest, failed(log)) is None or rule == "R5"


def test_a_line_that_names_no_znode_is_not_enough():
    assert from_log(copy_of(tree()), failed("ERROR Encountered fatal fault: Aborting the ZK migration")) is None


@given(
    st.integers(1, 200).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1), min_size=1)))
)
def test_a_bisection_finds_a_culprit_in_few_questions(case):
    count, culprits = case
    names = [f"/u{number}" for number in range(count)]
    bad = {names[number] for number in culprits}
    asked = []

    def works(kept):
        asked.append(kept)
        return not bad & set(kept)

    assert first_culprit(names, works) == names[min(culprits)]
    assert len(asked) <= 2 + 2 * count.bit_length()


def test_a_tree_that_works_not_even_without_units_has_no_culprit():
    assert first_culprit(["/a"], lambda _: False) is None


def test_suspects_come_first():
    damaged = tree({"/config/users/zoe": config(no_such="5"), STATE: b""})
    assert suspects(damaged) == {STATE: "R6", "/config/users/zoe": "R12"}
    assert set(units(damaged)[:2]) == {TOPIC, "/config/users/zoe"}


def test_every_suspect_is_named_however_many_there_are():
    damaged = {f"/config/clients/c{number}": config(consumer_byte_rate="1.5") for number in range(30)}
    assert suspects(tree(damaged)) == dict.fromkeys(sorted(damaged), "R12")


def test_many_repairs_make_one_copy_not_one_each(monkeypatch):
    damaged = {
        f"/config/{kind}{number}": config(consumer_byte_rate="1.5")
        for kind in ("topics/gone", "clients/c")
        for number in range(30)
    }
    copies, copy = [], copy_of(tree(damaged))
    monkeypatch.setattr(
        Copy, "only", lambda self, *units, only=Copy.only: (copies.append(units), only(self, *units))[1]
    )
    assert repairs(repaired(copy, repairs(copy.tree)).tree) == ()
    assert len(copies) == 1


def test_the_lines_of_a_log_that_tell_why():
    log = "2026-01-01 00:00:00,1 INFO fine\n2026-01-01 00:00:00,2 ERROR broken 1\n2026-01-01 00:00:00,3 ERROR broken 2\njava.lang.IllegalStateException: because\n"
    assert telling_lines(log) == ("ERROR broken 1", "java.lang.IllegalStateException: because")


def test_no_broker_has_the_controllers_id():
    assert free_controller_id(copy_of(tree())) == 3000
    assert free_controller_id(copy_of(tree({TOPIC: topic(3000, 3001)}))) == 3002


def test_of_the_planned_settings_those_of_hosts_and_files_are_left_out():
    text = "# x\npassword.encoder.secret = a=b\nlisteners=X://h:1\nzookeeper.connect=z\nnode.id=1\nssl.keystore.location=f\nauthorizer.class.name=A\ndefault.replication.factor=3\n"
    assert planned_settings(text) == {"password.encoder.secret": "a=b", "default.replication.factor": "3"}


def test_a_properties_file_is_read_as_java_reads_it():
    text = "a=1\n! x=y\nb : 2\r\nc 3\nd\n # x\n e\\:f = x\\=y \ng=one,\\\n   two,\\\n\nh=x\\\\\nm==5\nn = # no comment\no=1\no=2\np=\x0cq\\"
    assert pairs_of(text) == {
        "a": "1", "b": "2", "c": "3", "d": "", "e\\:f": "x\\=y", "g": "one,two,", "h": "x\\\\", "m": "=5", "n": "# no comment", "o": "2", "p": "q",
    }  # fmt: skip


def test_repairs_remove_requests_and_orphans_and_correct_quotas():
    changes = {
        "/admin/reassign_partitions": b"{}",
        "/admin/delete_topics/ghost": None,
        TOPIC: topic(2, 1, adding_replicas={"0": [2]}, removing_replicas={"0": [1]}),
        "/config/topics/gone": config(),
        "/config/users/ada": config(no_such_rate="5", producer_byte_rate="abc", consumer_byte_rate="7.5", request_percentage="12.5"),
    }  # fmt: skip
    found = {repair.path: repair.data for repair in repairs(tree(changes))}
    assert found.keys() == changes.keys()
    assert json.loads(found[TOPIC])["partitions"] == {"0": [1]}
    assert json.loads(found["/config/users/ada"]) == config(consumer_byte_rate="7", request_percentage="12.5")
    assert repairs(tree()) == ()


PLACE = Place(broker_id=4, zookeeper_connect="z:1/k", voters="9@c:1", folder=Path("/f"), ports={})


def placed(properties):
    planned = planned_broker(properties)
    return planned, replace(PLACE, ports=dict(zip(listener_names(planned), range(1, 9), strict=False)))


def test_a_real_broker_has_the_clusters_settings_on_loopback():
    text = (
        "listeners=SASL://h:1,CONTROL://h:2\ncontrol.plane.listener.name=CONTROL\nsecurity.inter.broker.protocol=SASL\nlog.dirs=/a,/b\n"
        "ssl.keystore.location=/k\nnum.io.threads=64\nsuper.users=User:a\nauthorizer.class.name=com.mine.Authorizer\ninter.broker.protocol.version=3.8\n"
    )
    migrating = in_migration_mode(*placed(text))
    assert migrating["listeners"] == "SASL://127.0.0.1:1,CONTROL://127.0.0.1:2"
    assert migrating["listener.security.protocol.map"] == "SASL:PLAINTEXT,CONTROL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert migrating["inter.broker.listener.name"] == "SASL"
    assert migrating["log.dirs"] == "/f/broker-4-0,/f/broker-4-1"
    assert migrating["super.users"] == "User:a;User:ANONYMOUS"
    assert (migrating["broker.id"], migrating["inter.broker.protocol.version"]) == ("4", "3.8")
    assert not {"ssl.keystore.location", "num.io.threads", "authorizer.class.name"} & migrating.keys()
    kraft = in_kraft_mode(*placed(text))
    assert not {"broker.id", "inter.broker.protocol.version", "zookeeper.connect"} & kraft.keys()
    assert (kraft["node.id"], kraft["process.roles"], kraft["control.plane.listener.name"]) == (
        "4",
        "broker",
        "CONTROL",
    )


def test_a_real_broker_is_set_as_the_asked_one_answers():
    settings = {
        "inter.broker.protocol.version": "3.7",
        "broker.id": "1",
        "authorizer.class.name": "",
        "password.encoder.secret": None,
    }
    answer = Answer((3, 9), settings, {"broker.id": "DEFAULT_CONFIG"}, {"/a": 0, "/b": 0})
    found = planned_by_answers(Answers(NOW, {1: answer}, {}))
    assert found == {1: {"inter.broker.protocol.version": "3.7", "broker.id": "-1", "log.dirs": "/a,/b"}}


def test_the_planned_quorums_id_and_listener_are_taken_and_an_id_that_is_no_number_is_refused():
    quorum = planned_quorum("3.9", None, "node.id=7\ninter.broker.listener.name=X\n")
    assert (quorum.node_id, quorum.listener) == (7, "X")
    with pytest.raises(BadInputError, match=r"expected a number as node\.id, found 'x'"):
        planned_quorum("3.9", None, "node.id=x\n")


def test_the_report_tells_what_real_brokers_refused():
    refusal = Refusal(Mode.KRAFT, 1, "not supported in KRaft mode", "R22", "control.plane.listener.name is removed")
    real = WithBrokers(brokers=(1,), reached=True, refusals=(refusal,), topics=(1, 1), left_out=0, total_s=9.0)
    outcome = Outcome(
        reached=True, obstacles=(), unexplained=(), differences=(), record_counts={}, attempts=1,
        cost=Cost(0.5, 1.0, 1, 1), total_s=9.0, rest=copy_of(tree()),
    )  # fmt: skip
    told = Rehearsal(certificate=certify(tree(), MANIFEST), quorum=Quorum(), outcome=outcome, left_out={}, real=real)
    assert outcome.passed
    assert not told.passed
    text = rehearsal_text(told)
    assert "broker 1 in KRaft mode: not supported in KRaft mode" in text
    assert "to mend: remove them" in text
    document = rehearsal_json(told)["real_brokers"]
    assert json.loads(json.dumps(document))["refusals"][0]["mode"] == "KRaft mode"
    assert document["passed"] is False


class SlowController:
    """A controller on a busy machine: what it shows, look by look, of the state and of whether it is active."""

    child, log_text = SimpleNamespace(is_alive=True), ""

    def __init__(self, *looks):
        self._looks = iter(looks)

    @property
    def migration_state(self):
        state, self.is_active = next(self._looks)
        return state


def test_a_controller_that_is_not_active_yet_does_not_hang():
    nobody = SimpleNamespace(all_registered=True, refused={})
    late = [("UNINITIALIZED", False)] * 3 + [(DUAL_WRITE, True)]
    assert await_end(SlowController(*late), nobody, quiet_s=0.0) is End.DUAL_WRITE
    waits = [("UNINITIALIZED", False), *[("WAIT_FOR_BROKERS", True)] * 3, (DUAL_WRITE, True)]
    assert await_end(SlowController(*waits), nobody, quiet_s=0.0) is End.HANGS


STANDS = {
    "an error of the controller that no broker can mend": (
        "BECOME_CONTROLLER",
        "ERROR Encountered zk migration fault",
        20,
    ),
    "the same while it migrates": ("ZK_MIGRATION", "ERROR Encountered zk migration fault", 20),
    "no error: it may only be slow": ("ZK_MIGRATION", "INFO Starting ZK migration", 180),
    "a broker may still start": ("WAIT_FOR_BROKERS", "INFO Still waiting for ZK brokers [1]", 180),
    "an error before it came into its state": ("BECOME_CONTROLLER", "ERROR once\nINFO transitioning from X to Y", 180),
    "a znode that cannot be written back is not told as an error": ("SYNC_KRAFT_TO_ZK", "", 20),
}
"""Why → state, log, and after how many seconds real brokers are no longer waited for."""


@pytest.mark.parametrize("why", STANDS)
def test_real_brokers_are_waited_for_while_something_can_still_come(monkeypatch, why):
    state, log, seconds = STANDS[why]
    clock = [0.0]
    monkeypatch.setattr(
        real_brokers,
        "time",
        SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda waited: clock.append(clock.pop() + waited)),
    )
    process = SimpleNamespace(is_alive=True)
    stuck = SimpleNamespace(child=process, migration_state=state, log_text=log)
    refused = await_dual_write(stuck, {1: SimpleNamespace(child=process, log_text="")})
    assert refused.line.startswith(f"{state}: ")
    assert clock[0] == pytest.approx(seconds, abs=1)
