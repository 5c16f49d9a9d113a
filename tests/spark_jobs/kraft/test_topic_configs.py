"""Which configs of a topic Kafka takes: what `LogConfig.validate` of Kafka 3.9.2 said of each value for each name."""

import pytest

from spark_jobs.kraft.topic_configs import doubtful_settings

VALUES = ("", "-131073", "-131072", "-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", " 5 ", "+5", "-0", "00000000000000000000000005", "5.0", "1e3", "abc", "٣", "0x10", "1_000", "5 5", "TRUE", "False", " true", "yes", "compact", "delete", "delete, compact", "delete,", "Delete", "GZIP", " gzip", "producer", "CreateTime", "LogAppendTime", "createtime", "0.5", "1.0", "1.1", "0.5d", ".5", "5.", "NaN", "Infinity", "1e-400", "*", " * ", "0:1", "0:1, 1:2", "0:1 ,1:2", "0:1,", "0:-1", "0:1:2", "0.10.2", "0.10.2.1", "0.9", "0.11", "0.11.0", "1.2", "2.8", "2.9", "3.9-IV0", "4.1", "3.10", "3.9.1-IV0", "2.8-SNAPSHOT")  # fmt: skip
TAKEN = {
    ("cleanup.policy",):
        ("", "compact", "delete", "delete, compact"),
    ("compression.gzip.level",):
        ("-1", "1", "3", "4", "9", " 5 ", "+5", "00000000000000000000000005", "٣"),
    ("compression.lz4.level",):
        ("1", "3", "4", "9", "10", "13", "14", "17", " 5 ", "+5", "00000000000000000000000005", "٣"),
    ("compression.type",):
        (" gzip", "producer"),
    ("compression.zstd.level",):
        ("-131072", "-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", " 5 ", "+5", "-0", "00000000000000000000000005", "٣"),
    ("delete.retention.ms", "file.delete.delay.ms", "flush.ms", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms", "min.compaction.lag.ms", "segment.jitter.ms"):
        ("0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", "2147483648", "9223372036854775807", " 5 ", "+5", "-0", "00000000000000000000000005", "٣"),
    ("flush.messages", "max.compaction.lag.ms", "segment.ms"):
        ("1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", "2147483648", "9223372036854775807", " 5 ", "+5", "00000000000000000000000005", "٣"),
    ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"):
        ("", "*", " * ", "0:1", "0:1, 1:2", "0:1 ,1:2", "0:1,"),
    ("index.interval.bytes", "max.message.bytes"):
        ("0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", " 5 ", "+5", "-0", "00000000000000000000000005", "٣"),
    ("local.retention.bytes", "local.retention.ms"):
        ("-2", "-1", "0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", "2147483648", "9223372036854775807", " 5 ", "+5", "-0", "00000000000000000000000005", "٣"),
    ("message.downconversion.enable", "preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable", "unclean.leader.election.enable"):
        ("TRUE", "False", " true"),
    ("message.format.version",):
        ("1.0", "1.1", "0.10.2", "0.10.2.1", "0.11.0", "2.8", "3.9-IV0", "3.9.1-IV0"),
    ("message.timestamp.type",):
        ("CreateTime", "LogAppendTime"),
    ("min.cleanable.dirty.ratio",):
        ("0", "1", "-0", "0.5", "1.0", "0.5d", ".5", "NaN", "1e-400", "0.9", "0.11"),
    ("min.insync.replicas",):
        ("1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", " 5 ", "+5", "00000000000000000000000005", "٣"),
    ("retention.bytes",):
        ("-131073", "-131072", "-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", "2147483648", "9223372036854775807", "-9223372036854775808", " 5 ", "+5", "-0", "00000000000000000000000005", "٣"),
    ("retention.ms",):
        ("-1", "0", "1", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", "2147483648", "9223372036854775807", " 5 ", "+5", "-0", "00000000000000000000000005", "٣"),
    ("segment.bytes",):
        ("14", "17", "18", "22", "23", "2147483647"),
    ("segment.index.bytes",):
        ("4", "9", "10", "13", "14", "17", "18", "22", "23", "2147483647", " 5 ", "+5", "00000000000000000000000005"),
}  # fmt: skip
"""Names → those of `VALUES` that Kafka takes for each of them."""


@pytest.mark.parametrize(("names", "taken"), TAKEN.items(), ids=lambda each: each[0])
def test_what_kafka_takes_is_no_doubt_and_all_else_is(names, taken):
    for name in names:
        assert tuple(value for value in VALUES if not list(doubtful_settings({name: value}))) == taken


@pytest.mark.parametrize(
    ("config", "doubts"),
    [
        pytest.param({"no.such": "1"}, [("no.such", "no.such is no config of a topic in Kafka 3.9")], id="unknown"),
        pytest.param(
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            [("min.compaction.lag.ms", "min.compaction.lag.ms='10' is more than max.compaction.lag.ms='5'")],
            id="two that contradict each other",
        ),
        pytest.param({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}, [], id="two that just do not"),
        pytest.param({"segment.bytes": "9" * 5000}, [("segment.bytes", f"segment.bytes={'9' * 5000!r} is no whole number")], id="endless digits"),
    ],
)  # fmt: skip
def test_a_doubt_names_its_setting(config, doubts):
    assert list(doubtful_settings(config)) == doubts
