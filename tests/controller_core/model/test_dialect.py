"""Dialects: one per minor version, times the protocol between brokers; how a snapshot tells its version."""

from dataclasses import fields

import pytest

from controller_core.model.dialect import (
    MINOR_VERSIONS,
    Detected,
    Evidence,
    detect_version,
    dialect_for,
    parse_ibp,
    parse_version,
)
from controller_core.model.errors import UnknownVersionError

FLAGS = """
flag                                          0.10.2 1.0   1.1   2.4   3.9
ineligible_from_offline                       no     no    no    yes   yes
startup_moves_dead_replicas_offline           no     no    no    yes   yes
offline_without_leader_ok                     no     no    no    yes   yes
retain_last_isr_always                        no     no    yes   yes   yes
deletion_marks_partitions_nonexistent_first   no     no    no    yes   yes
preferred_election_blocks_deletion            yes    no    no    no    no
adding_and_removing_replicas                  no     no    no    yes   yes
rebalance_blocked_by_any_reassignment         yes    yes   yes   yes   no
rebalance_requires_preferred_in_isr           no     no    no    no    yes
empty_update_metadata_means_all_partitions    yes    yes   yes   no    no
epoch_fencing                                 no     no    no    yes   yes
broker_epochs                                 no     no    no    yes   yes
leader_recovery_state                         no     no    no    no    yes
isr_through_controller                        no     no    no    no    yes
refuses_isr_of_unavailable                    no     no    no    no    yes
unclean_leader_election_default               yes    no    no    no    no
delete_topic_default                          no     yes   yes   yes   yes
min_isr_capped_by_replicas                    no     no    no    no    yes
scala_2_13                                    no     no    no    yes   yes
request_znodes_read_strictly                  no     no    no    yes   yes
"""
JSON_VERSIONS = """
znode       0.10.2 1.0   2.3   2.4   2.6   2.7   2.8   3.3   3.4
topic       1      1     1     2     2     2     3     3     3
broker      4      4     4     4     4     5     5     5     5
controller  1      1     1     1     1     1     1     1     2
"""
REQUESTS = """
ibp         LeaderAndIsr StopReplica UpdateMetadata
0.8.0       0            0           0
0.9.0       0            0           1
0.10.0-IV0  0            0           1
0.10.0-IV1  0            0           2
0.10.2-IV0  0            0           3
1.0-IV0     1            0           4
2.2-IV0     2            1           5
2.4-IV0     3            1           5
2.4-IV1     4            2           6
2.6-IV0     4            3           6
2.8-IV0     4            3           6
2.8-IV1     5            3           7
3.2-IV0     6            3           7
3.4-IV0     7            4           8
4.0-IV1     7            4           8
"""


def table(text):
    head, *lines = (line.split() for line in text.strip().splitlines())
    return [(line[0], name, cell) for line in lines for name, cell in zip(head[1:], line[1:], strict=True)]


@pytest.mark.parametrize(("flag", "version", "cell"), table(FLAGS))
def test_flags_are_those_of_the_table(flag, version, cell):
    assert getattr(dialect_for(version), flag) is (cell == "yes")


@pytest.mark.parametrize(("znode", "version", "cell"), table(JSON_VERSIONS))
def test_format_versions_are_those_of_the_table(znode, version, cell):
    assert getattr(dialect_for(version), f"{znode}_json_version") == int(cell)


@pytest.mark.parametrize(("ibp", "api", "version"), table(REQUESTS))
def test_request_versions_follow_the_protocol(ibp, api, version):
    field = {"LeaderAndIsr": "leader_and_isr", "StopReplica": "stop_replica", "UpdateMetadata": "update_metadata"}[api]
    assert getattr(dialect_for("3.9", ibp), f"{field}_version") == int(version)


@pytest.mark.parametrize(
    ("ibp", "flags"),
    [
        pytest.param("2.7-IV1", set(), id="before all of them"),
        pytest.param("2.7-IV2", {"isr_through_controller"}, id="AlterPartition"),
        pytest.param("2.8-IV0", {"isr_through_controller", "topic_ids"}, id="topic ids"),
        pytest.param("3.1", {"isr_through_controller", "topic_ids"}, id="no recovery state yet"),
        pytest.param("3.2-IV0", {"isr_through_controller", "topic_ids", "leader_recovery_state"}, id="recovery state"),
    ],
)
def test_what_the_protocol_holds_back_in_a_new_version(ibp, flags):
    dialect = dialect_for("3.9", ibp)
    known = ("isr_through_controller", "topic_ids", "leader_recovery_state")
    assert {flag for flag in known if getattr(dialect, flag)} == flags


def test_there_is_a_dialect_for_every_minor_version():
    assert [dialect_for(version).version for version in MINOR_VERSIONS] == list(MINOR_VERSIONS)
    assert len({tuple(getattr(dialect_for(v), f.name) for f in fields(dialect_for(v))) for v in MINOR_VERSIONS}) == len(
        MINOR_VERSIONS
    )


@pytest.mark.parametrize("call", [
    lambda: dialect_for("0.9"), lambda: dialect_for("4.1"), lambda: parse_version("new"), lambda: parse_ibp("2.7-V2"),
])  # fmt: skip
def test_unknown_versions_are_named(call):
    with pytest.raises(UnknownVersionError, match="expected"):
        call()


def test_a_patch_version_is_its_minor_version():
    assert dialect_for("3.9.2").version == "3.9"
    assert dialect_for("0.10.2.2").version == "0.10.2"


@pytest.mark.parametrize(
    ("evidence", "version"),
    [
        (Evidence(), "0.10.2"),
        (Evidence(controller_json_version=2), "3.4"),
        (Evidence(has_recovery_state=True), "3.2"),
        (Evidence(topic_json_versions=(1, 3)), "2.8"),
        (Evidence(version_znodes=("/feature", "/config/ips", "/latest_producer_id_block")), "2.8"),
        (Evidence(broker_json_versions=(4, 5)), "2.7"),
        (Evidence(version_znodes=("/feature",)), "2.7"),
        (Evidence(topic_json_versions=(2,)), "2.4"),
        (Evidence(controller_epoch_version=1), "2.1"),
        (Evidence(controller_epoch_version=1, version_znodes=("/kafka-acl-extended",)), "2.1"),
        (Evidence(version_znodes=("/kafka-acl-extended", "/log_dir_event_notification")), "2.0"),
        (Evidence(version_znodes=("/config/brokers/<default>",)), "1.1"),
        (Evidence(version_znodes=("/delegation_token/tokens",)), "1.1"),
        (Evidence(version_znodes=("/latest_producer_id_block", "/log_dir_event_notification")), "1.0"),
        (Evidence(version_znodes=("/latest_producer_id_block",)), "0.11.0"),
    ],
)
def test_a_snapshot_tells_the_oldest_version_that_explains_it(evidence, version):
    found = detect_version(evidence)
    assert isinstance(found, Detected)
    assert found.version == version
    assert found.reasons
