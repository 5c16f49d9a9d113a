"""Sizes of partitions from a file and from real brokers, and what is said when they cannot be had."""

import contextlib
import json
import socket
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as ClientPartition
from kafka.structs import OffsetAndMetadata

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.parquet import table_from_parquet
from controller_core.model.partitions import TopicPartition
from controller_core.plans.rules import ThrottleBand
from kafka_maintenance.cli.main import main
from kafka_maintenance.demo.traffic import create_topic, produce
from kafka_maintenance.operations.analysis.disks import measure_disks, newest_disks
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import SizesUnknownError
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.sizes import sizes_from_file, sizes_from_log_dirs
from kafka_maintenance.operations.plans.topic_use import GroupUse, TopicUse, use_of_topics
from kafka_maintenance.servers import KafkaCluster
from kafka_maintenance.servers.errors import NotHealthyError
from kafka_maintenance.servers.process import wait_until
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits
from tests.kafka_maintenance.operations.plans.made import six_on_two_brokers

SMALL, LARGE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def sizes(**changed):
    rows = [{"topic": "a", "partition": number, "size": 100 * number} for number in range(6)]
    return {"partitions": [{**row, **changed} for row in rows]}


def test_a_file_gives_the_sizes(tmp_path):
    path = tmp_path / "sizes.json"
    path.write_text(json.dumps(sizes()))
    assert sizes_from_file(path)[TopicPartition("a", 5)] == 500


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("{", "something else", id="no JSON"),
        pytest.param("[]", "something else", id="a list"),
        pytest.param("[" * 200_000, "something else", id="nested without end"),
        pytest.param('{"partitions": [{"topic": "a"}]}', "something else", id="a field is missing"),
        pytest.param(json.dumps(sizes(size=-1)), r"a-0: -1.*correct them", id="below zero"),
        pytest.param(json.dumps(sizes(size="5")), "a-0: '5'", id="a text"),
    ],
)
def test_another_file_is_bad_input(tmp_path, content, said):
    (tmp_path / "sizes.json").write_text(content)
    with pytest.raises(BadInputError, match=said):
        sizes_from_file(tmp_path / "sizes.json")


def test_a_plan_knows_its_bytes():
    known = {TopicPartition("a", number): 100 for number in range(6)}
    plan = plan_reassignment(MemoryStore(), "demo", zookeeper=six_on_two_brokers().zookeeper(), sizes=known)
    assert plan is not None
    assert "400 bytes are copied; the fullest broker holds" in plan.markdown


def test_a_plan_estimates_its_duration_and_throttle():
    known = {TopicPartition("a", number): 100 for number in range(6)}
    plan = plan_reassignment(
        MemoryStore(),
        "demo",
        zookeeper=six_on_two_brokers().zookeeper(),
        sizes=known,
        limits=Limits(bandwidth=10, window_s=60),
    )
    assert plan is not None
    assert "They take about 40 s at 10 bytes per second and broker." in plan.markdown
    assert "To finish each in 60 s a broker copies up to 7 bytes per second" in plan.markdown


@pytest.mark.parametrize(
    ("throttle", "said"),
    [
        (10, "The copies take about 40 s at 10 bytes per second and broker, the longest step 40 s of it"),
        (
            ThrottleBand(10, 40),
            "about 40 s at 10 to 10 s at 40 bytes per second and broker, the longest step 10 s of it",
        ),
    ],
)
def test_the_approver_reads_how_long_the_copies_take_under_the_throttle(throttle, said):
    known = {TopicPartition("a", number): 100 for number in range(6)}
    plan = plan_reassignment(
        MemoryStore(), "demo", zookeeper=six_on_two_brokers().zookeeper(), sizes=known, throttle_bytes_per_s=throttle
    )
    assert plan is not None
    assert said in plan.markdown


def test_a_goal_in_bytes_is_planned_for():
    known = {TopicPartition("a", number): 10 ** (number % 3) for number in range(6)}
    plan = plan_reassignment(
        MemoryStore(), "demo", zookeeper=six_on_two_brokers().zookeeper(), sizes=known, goals=Goals(bytes_tolerance=0.1)
    )
    assert plan is not None
    assert "no plan is below" in plan.markdown


def test_a_partition_without_a_size_stops_the_plan():
    known = {TopicPartition("a", number): 100 for number in range(5)}
    with pytest.raises(BadInputError, match=r"the size of each of 6 partitions expected, none found of a-5"):
        plan_reassignment(MemoryStore(), "demo", zookeeper=six_on_two_brokers().zookeeper(), sizes=known)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--sizes", "log-dirs"), "belong together", id="nobody to ask"),
        pytest.param(("--bootstrap-servers", "b:1"), "belong together", id="nothing to ask for"),
        pytest.param(("--wave-bytes", "5"), "need the sizes", id="a limit in bytes without sizes"),
        pytest.param(("--sizes", "/nowhere.json"), "name a readable file", id="no such file"),
        pytest.param(("--client-settings", "c.json"), "is for --sizes log-dirs", id="settings of no client"),
        pytest.param(("--targets", "{targets}", "--drain-broker", "1"), "goals for the planner exclude", id="goals"),
        pytest.param(
            ("--targets", "{targets}", "--exclude", "orders"), "goals for the planner exclude", id="a pattern"
        ),
        pytest.param(("--targets", "{targets}", "--wave-bytes", "5"), "need the sizes", id="targets in bytes"),
        pytest.param(
            ("--targets", "{targets}", "--sizes", "{sizes}"), "are not chosen by sizes", id="targets and sizes alone"
        ),
        pytest.param(("--change-replication-factor",), "--targets is missing", id="a factor of no targets"),
        pytest.param(
            ("--replace-broker", "1=3", "--replace-broker", "1=4"), "by 3 and by 4", id="two replacement brokers"
        ),
        pytest.param(
            ("--aim", "leaders", "--replace-broker", "1=2"),
            "aim 'leaders' and replace exclude",
            id="leaders and a replacement broker",
        ),
        pytest.param(("--bytes-tolerance", "nan"), "expected a number from 0 on", id="no number"),
    ],
)
def test_the_command_line_says_what_is_missing_or_would_be_dropped(arguments, said, capsys, tmp_path):
    targets = tmp_path / "targets.json"
    targets.write_text('{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 3]}]}')
    (tmp_path / "sizes.json").write_text(json.dumps(sizes()))
    given = [each.format(targets=targets, sizes=tmp_path / "sizes.json") for each in arguments]
    assert main(["plan", "reassignment", "--cluster", "c", "--store", "/nowhere", *given]) == 2
    assert said in capsys.readouterr().err


def test_nobody_listens():
    with pytest.raises(SizesUnknownError, match=r"every connection was refused for 0\.6 s: nothing listens there"):
        sizes_from_log_dirs(BrokersAsked("127.0.0.1:1"), timeout_s=0.2)


def test_a_setting_that_the_client_does_not_have_is_bad_input():
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(BadInputError, match="colour"):
        sizes_from_log_dirs(BrokersAsked(f"127.0.0.1:{server.getsockname()[1]}", {"colour": "red"}), timeout_s=1)


@pytest.mark.kafka
@pytest.mark.parametrize("version", ["2.0", "3.9"])
def test_real_brokers_say_how_much_their_replicas_hold_and_who_uses_a_topic(version, tmp_path, capsys):
    with KafkaCluster(version, brokers=3) as kafka:
        create_topic(kafka, "orders", {0: (1, 2), 1: (1, 2), 2: (1, 2)})
        produce(kafka, "orders", 0, count=10)
        produce(kafka, "orders", 1, count=300)
        found = sizes_from_log_dirs(BrokersAsked(kafka.bootstrap_servers))
        assert found[TopicPartition("orders", 2)] == 0
        assert 10 * 200 <= found[SMALL] < 300 * 200 <= found[LARGE]
        disks_are_kept(kafka, found, version)

        arguments = ["--cluster", "c", "--store", str(tmp_path), "--zookeeper", kafka.zookeeper_connect]
        asked = ["--sizes", "log-dirs", "--bootstrap-servers", kafka.bootstrap_servers, "--bytes-tolerance", "0.1"]
        assert main(["plan", "reassignment", *arguments, *asked]) == 0
        assert "bytes are copied; the fullest broker holds" in capsys.readouterr().out
        use_is_told_and_refused(kafka, arguments, capsys)

        kafka[3].pause()
        try:
            with pytest.raises(SizesUnknownError, match="the log directories of broker 3 expected"):
                sizes_from_log_dirs(BrokersAsked(kafka[1].address), timeout_s=3)
        finally:
            kafka[3].resume()


def disks_are_kept(kafka, sizes, version):
    """What the brokers say is kept for the analysis: volumes since Kafka 3.3, replicas always."""
    store = MemoryStore(f"disks of {version}")
    measured_at = datetime(2026, 11, 20, 2, tzinfo=UTC)
    key = measure_disks(store, "c", BrokersAsked(kafka.bootstrap_servers), run_id="r", now=measured_at)
    rows = table_from_parquet(store.get(key), key).to_pylist()
    assert {row["broker_id"] for row in rows} == {1, 2, 3}
    assert {row["size"] for row in rows if (row["topic"], row["partition"]) == LARGE} == {sizes[LARGE]}
    knows = version != "2.0"
    assert all((row["total_bytes"] is not None and row["usable_bytes"] < row["total_bytes"]) == knows for row in rows)
    assert newest_disks(store, ["c", "d"], "2026-11-20") == {"c": (key, store.get(key))}


def member_of(group, settings):
    """A consumer that reads `orders`; one that gets no partition in half a minute is replaced, as an application is restarted."""
    for _ in range(4):
        consumer = KafkaConsumer("orders", group_id=group, **settings)
        try:
            wait_until(
                partial(_has_partitions, consumer), what=f"a member of the group {group} has partitions", timeout_s=30
            )
        except NotHealthyError:
            consumer.close()
        else:
            return consumer
    pytest.fail(f"no member of the group {group} has got partitions")


def _has_partitions(consumer):
    return consumer.poll(100) is not None and bool(consumer.assignment())


def use_is_told_and_refused(kafka, arguments, capsys):
    """`orders` was written to just now; one group reads it, another has left its offsets there; nobody uses `idle`."""
    create_topic(kafka, "idle", {0: (1, 2)})
    brokers, topics = BrokersAsked(kafka.bootstrap_servers), {"orders": 3, "idle": 1}
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "enable_auto_commit": False}
    with contextlib.ExitStack() as closing:
        left = KafkaConsumer(group_id="left", **settings)
        left.assign([ClientPartition("orders", 0)])
        left.commit({ClientPartition("orders", 0): OffsetAndMetadata(3, "", -1)})
        left.close()
        closing.callback(member_of("living", settings).close)
        found = use_of_topics(brokers, topics)
        command = ["plan", "deletions", "orders", *arguments, "--bootstrap-servers", kafka.bootstrap_servers]
        assert main(command) == 1
        assert "orders: members of group living read it; group left committed offsets of it" in capsys.readouterr().err
        assert main([*command, "--even-if-used"]) == 0
        assert "* `orders is in use: members of group living read it;" in capsys.readouterr().out
    assert found["idle"] == TopicUse(0, None, written_since=False, groups=(), acls=None)
    assert found["orders"].groups == (
        GroupUse("left", 0, has_offsets=True),
        GroupUse("living", 1, has_offsets=False),
    )
    assert found["orders"].written_since
    assert (found["orders"].newest is None) is (kafka.version == "2.0")  # which cannot be asked for it
    later = use_of_topics(brokers, topics, now=datetime.now(UTC) + timedelta(days=31))
    assert not later["orders"].written_since


@pytest.mark.kafka
def test_brokers_that_are_too_old_are_named():
    with (
        KafkaCluster("0.11.0", brokers=1) as kafka,
        pytest.raises(SizesUnknownError, match=r"broker 1 of Kafka 2.0 or later expected, found an older one"),
    ):
        sizes_from_log_dirs(BrokersAsked(kafka.bootstrap_servers))


@pytest.mark.parametrize("given", [("--spread-bytes", "0.1"), ("--drain-broker", "1", "--sizes", "/nowhere.json")])
def test_leaders_are_spread_by_sizes_and_sizes_are_for_nothing_else(given, capsys):
    where = ["--cluster", "c", "--store", "/nowhere", "--zookeeper", "127.0.0.1:1"]
    assert main(["plan", "leaders", *where, *given]) == 2
    assert "--spread-bytes and --sizes belong together" in capsys.readouterr().err
