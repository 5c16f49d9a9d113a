"""What is left of two raw layers before they are decoded: what was written to in between, came or went, and its topic."""

import pyarrow as pa
import pytest

from controller_core.adapters.snapshot.tables import RAW
from kafka_maintenance.operations.snapshots.diff_znodes import without_equal

STATE = "/brokers/topics/{}/partitions/0/state"
SAME = {
    "/brokers/ids/1": {},
    "/brokers/topics/idle": {},
    STATE.format("idle"): {},
    "/brokers/topics/orders": {},
    STATE.format("orders"): {},
    "/config/topics/orders": {},
}
ALWAYS = ["/brokers/ids/1"]
"""No topic and no config: it is compared whole."""


def raw(znodes):
    """A raw layer of these paths, with what of their columns is not as usual."""
    usual = dict.fromkeys(RAW.names) | {"data": b"1", "czxid": 1, "mzxid": 1, "acl": "open"}
    return pa.Table.from_pylist([usual | {"path": path} | znodes[path] for path in sorted(znodes)], schema=RAW)


def kept(before, after):
    return [found["path"].to_pylist() for found in without_equal(raw(before), raw(after))]


def test_where_nobody_wrote_no_topic_and_no_config_is_left():
    assert kept(SAME, SAME) == [ALWAYS, ALWAYS]


@pytest.mark.parametrize(
    "written", [{"data": b"2"}, {"mzxid": 2}, {"czxid": 2}, {"acl": None}, {"left_out": "secret"}], ids=str
)
def test_what_was_written_to_stays_with_its_topic(written):
    left = [*ALWAYS, "/brokers/topics/orders", STATE.format("orders")]
    assert kept(SAME, SAME | {STATE.format("orders"): written}) == [left, left]
    left = [*ALWAYS, "/config/topics/orders"]
    assert kept(SAME, SAME | {"/config/topics/orders": written}) == [left, left]


@pytest.mark.parametrize("came", ["aaa", "fresh", "zzz"])
def test_what_came_or_went_stays_wherever_it_stands_among_the_others(came):
    topic, state = f"/brokers/topics/{came}", STATE.format(came)
    more = {topic: {}, state: {}, STATE.format("orders"): {"mzxid": 9}}
    beside = [*ALWAYS, "/brokers/topics/orders", STATE.format("orders")]
    with_it = sorted([*beside, topic, state])
    assert kept(SAME, SAME | more) == [beside, with_it]
    assert kept(SAME | more, SAME) == [with_it, beside]
