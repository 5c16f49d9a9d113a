"""What differs between Kafka versions, as fields of one frozen record; chosen once and passed in.

Source: Kafka 0.10.2 to 3.9 `KafkaController` and the classes around it, `ApiVersion` (`MetadataVersion` since 3.3); each
field names the version that changed it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from controller_core.model.errors import UnknownVersionError

Version = tuple[int, int, int]
"""Kafka 3.9 is (3, 9, 0), Kafka 0.10.2 is (0, 10, 2)."""

MINOR_VERSIONS: tuple[str, ...] = (
    *("0.10.2", "0.11.0", "1.0", "1.1"),
    *("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
)
"""Every minor version with a ZooKeeper controller that this project speaks for."""
NEWEST = MINOR_VERSIONS[-1]
_LATEST_IV = 99


class Ibp(NamedTuple):
    """An inter.broker.protocol.version; compares in Kafka's order. `iv` is 99 where only the version is given."""

    version: Version
    iv: int

    def at_least(self, name: str) -> bool:
        """Whether this protocol is `name` (such as "2.7-IV2") or later."""
        return self >= parse_ibp(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How the controller of one Kafka version behaves under one inter.broker.protocol.version.

    Booleans are true where the behaviour exists. `ibp_name` is as given, or the version itself.
    """

    version: str
    ibp_name: str
    # State machines
    batched_state_changes: bool  # 1.1: a call is validated up front and handled broker by broker
    ineligible_from_offline: bool  # 2.3
    startup_moves_dead_replicas_offline: bool  # 2.3, KAFKA-3143
    offline_without_leader_ok: bool  # 2.0, KAFKA-6650
    offline_without_leader_fails: bool  # <= 1.0: without leadership the change fails (1.1: nothing happens)
    retain_last_isr_always: bool  # 1.1: before, only where unclean election is off for the topic
    preferred_election_may_be_unneeded: bool  # <= 1.0: refuses when the leader is preferred already
    unclean_by_argument: bool  # 2.4: an administrator may ask for an unclean election
    # Fencing and requests
    epoch_fencing: bool  # 2.1, KAFKA-6082
    broker_epochs: bool  # 2.2, KAFKA-1120
    stop_replica_deduplicated: bool  # 2.6: one entry per partition, delete is sticky
    stop_replica_one_request_per_flag: bool  # 2.3: at most two requests per broker below version 3
    empty_update_metadata_means_all_partitions: bool  # <= 2.1
    update_metadata_adds_deleting_partitions: bool  # <= 1.1
    update_metadata_answers: bool  # 2.5: the answer to UpdateMetadata is an event
    leader_and_isr_version: int
    stop_replica_version: int
    update_metadata_version: int
    leader_recovery_state: bool  # 3.2 with IBP 3.2
    topic_ids: bool  # 2.8 with IBP 2.8
    isr_through_controller: bool  # 2.7 with IBP 2.7-IV2: AlterPartition instead of ISR notifications
    refuses_isr_of_unavailable: (
        bool  # 3.3: of the ISR that a leader wants all are alive and none shuts down (KAFKA-14140)
    )
    # Brokers and topics
    log_dir_failures: bool  # 1.0
    watches_broker_data: bool  # 1.1
    live_set_replaced_first: bool  # <= 2.1
    only_dead_brokers_leave_partitions_offline: bool  # <= 0.11: other leaders that are not online are not looked at
    new_brokers_hear_of_deletions: bool  # <= 2.6: partitions of topics queued for deletion, as being deleted
    election_results_decide_metadata: bool  # 3.1: brokers hear of a death unless an election succeeded
    restores_topic_node_during_deletion: bool  # 2.0
    # Deletion
    deletion_marks_partitions_nonexistent_first: bool  # 2.1
    deletion_retries_in_one_call: bool  # 2.5: all topics at once, their starts likewise
    preferred_election_blocks_deletion: bool  # <= 0.10.2
    # Reassignment
    adding_and_removing_replicas: bool  # 2.4, KIP-455
    completes_reassignments_on_notification: bool  # 2.7
    running_reassignments_are_not_started_again: bool  # <= 1.0: a changed request node is a request too
    # Leaders
    imbalance_waits_for_adding: bool  # 2.7: a preferred replica that is being added need not lead yet
    rebalance_wants_live_broker_only: bool  # <= 0.10.2: log directories are not looked at
    rebalance_blocked_by_any_reassignment: bool  # <= 3.3
    rebalance_requires_preferred_in_isr: bool  # 2.6
    rebalance_elects_one_by_one: bool  # <= 1.0
    preferred_elections_filtered: bool  # 2.2
    needless_election_is_error: bool  # 2.4
    controlled_shutdown_skips_deletions: bool  # 2.1
    # Life cycle and ISR notifications
    election_bumps_epoch_atomically: bool  # 2.1
    lists_notifications_when_processed: bool  # 1.1, KAFKA-5879
    failover_deletes_notifications: bool  # 1.1
    preempted_callers_are_answered: bool  # 2.2: who asked for what a lost session drops; of reassignments since 2.7
    preempted_reassignments_are_answered: bool  # 2.7
    controller_json_version: int  # 2 since 3.4
    topic_json_version: int  # 2 since 2.4, 3 since 2.8, whatever the protocol
    broker_json_version: int  # 5 with IBP 2.7
    scala_2_13: (
        bool  # 2.4, order in JSON and in a call: brokers are taken to be built for the newest Scala that is offered
    )
    request_znodes_read_strictly: bool  # 2.0: an unknown field of a reassignment is an error
    # Brokers
    min_isr_capped_by_replicas: bool  # 3.7, KAFKA-15583: no more in-sync replicas are wanted than there are replicas
    # Defaults of broker configs
    unclean_leader_election_default: bool  # true through 0.10.2
    delete_topic_default: bool  # false through 0.11


def parse_version(text: str) -> Version:
    """The minor version in `text`: "3.9.1" and "3.9" are (3, 9, 0), "0.10.2.2" is (0, 10, 2).

    Raises:
        UnknownVersionError: `text` does not begin with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise UnknownVersionError(f"Kafka version {text!r} not understood: expected e.g. '3.9' or '0.10.2'")
    major, minor = int(match[1]), int(match[2])
    return (major, minor, int(match[3] or 0) if major == 0 else 0)


def parse_ibp(text: str) -> Ibp:
    """An inter.broker.protocol.version by Kafka's name: "2.7-IV2", "0.10.2-IV0", "2.4", "0.8.0".

    A name without `-IV` stands for the last protocol of that version, as in Kafka.

    Raises:
        UnknownVersionError: `text` is no such name.
    """
    match = re.fullmatch(r"([\d.]+)(?:-IV(\d+))?", text)
    if match is None:
        raise UnknownVersionError(
            f"inter.broker.protocol.version {text!r} not understood: expected e.g. '2.7-IV2' or '0.10.2'"
        )
    return Ibp(parse_version(match[1]), _LATEST_IV if match[2] is None else int(match[2]))


_NAMES: Mapping[Version, str] = {parse_version(name): name for name in MINOR_VERSIONS}
_NO_VERSION: Ibp = Ibp((0, 0, 0), 0)
LEADER_AND_ISR_VERSIONS: Mapping[str, int] = {
    "1.0-IV0": 1, "2.2-IV0": 2, "2.4-IV0": 3, "2.4-IV1": 4, "2.8-IV1": 5, "3.2-IV0": 6, "3.4-IV0": 7,
}  # fmt: skip
STOP_REPLICA_VERSIONS: Mapping[str, int] = {"2.2-IV0": 1, "2.4-IV1": 2, "2.6-IV0": 3, "3.4-IV0": 4}
UPDATE_METADATA_VERSIONS: Mapping[str, int] = {
    "0.9.0": 1, "0.10.0-IV1": 2, "0.10.2-IV0": 3, "1.0-IV0": 4, "2.2-IV0": 5, "2.4-IV1": 6, "2.8-IV1": 7, "3.4-IV0": 8,
}  # fmt: skip


def request_version(table: Mapping[str, int], ibp: Ibp) -> int:
    """The version of a request under `ibp`: that of the newest row that `ibp` reaches, else 0."""
    return max((version for name, version in table.items() if ibp.at_least(name)), default=0)


def dialect_for(version: str, ibp: str | None = None) -> Dialect:
    """The dialect of a Kafka version, e.g. "3.9" or "2.4.1", under an inter.broker.protocol.version.

    Without `ibp` it is that of the version itself; protocols of 4.0 act as 3.9-IV0.

    Raises:
        UnknownVersionError: no ZooKeeper controller of that version is known, or a name is not understood.
    """
    found = parse_version(version)
    name = _NAMES.get(found)
    if name is None:
        raise UnknownVersionError(
            f"no dialect for Kafka {version!r}: expected one of {', '.join(MINOR_VERSIONS)}; "
            "name the version of the brokers, or the nearest older one"
        )
    return _dialect(name, found, ibp or name, parse_ibp(ibp or name))


@cache  # tests and tables ask for one dialect thousands of times
def _dialect(name: str, version: Version, ibp_name: str, ibp: Ibp) -> Dialect:
    def since(text: str) -> bool:
        return version >= parse_version(text)

    return Dialect(
        version=name,
        ibp_name=ibp_name,
        batched_state_changes=since("1.1"),
        ineligible_from_offline=since("2.3"),
        startup_moves_dead_replicas_offline=since("2.3"),
        offline_without_leader_ok=since("2.0"),
        offline_without_leader_fails=not since("1.1"),
        retain_last_isr_always=since("1.1"),
        preferred_election_may_be_unneeded=not since("1.1"),
        unclean_by_argument=since("2.4"),
        epoch_fencing=since("2.1"),
        broker_epochs=since("2.2"),
        stop_replica_deduplicated=since("2.6"),
        stop_replica_one_request_per_flag=since("2.3"),
        empty_update_metadata_means_all_partitions=not since("2.2"),
        update_metadata_adds_deleting_partitions=not since("2.0"),
        update_metadata_answers=since("2.5"),
        leader_and_isr_version=request_version(LEADER_AND_ISR_VERSIONS, ibp),
        stop_replica_version=request_version(STOP_REPLICA_VERSIONS, ibp),
        update_metadata_version=request_version(UPDATE_METADATA_VERSIONS, ibp),
        leader_recovery_state=since("3.2") and ibp.at_least("3.2-IV0"),
        topic_ids=since("2.8") and ibp.at_least("2.8-IV0"),
        isr_through_controller=since("2.7") and ibp.at_least("2.7-IV2"),
        refuses_isr_of_unavailable=since("3.3"),
        log_dir_failures=since("1.0"),
        watches_broker_data=since("1.1"),
        live_set_replaced_first=not since("2.2"),
        only_dead_brokers_leave_partitions_offline=not since("1.0"),
        new_brokers_hear_of_deletions=not since("2.7"),
        election_results_decide_metadata=since("3.1"),
        restores_topic_node_during_deletion=since("2.0"),
        deletion_marks_partitions_nonexistent_first=since("2.1"),
        deletion_retries_in_one_call=since("2.5"),
        preferred_election_blocks_deletion=not since("0.11.0"),
        adding_and_removing_replicas=since("2.4"),
        completes_reassignments_on_notification=since("2.7"),
        running_reassignments_are_not_started_again=not since("1.1"),
        imbalance_waits_for_adding=since("2.7"),
        rebalance_wants_live_broker_only=not since("0.11.0"),
        rebalance_blocked_by_any_reassignment=not since("3.4"),
        rebalance_requires_preferred_in_isr=since("2.6"),
        rebalance_elects_one_by_one=not since("1.1"),
        preferred_elections_filtered=since("2.2"),
        needless_election_is_error=since("2.4"),
        controlled_shutdown_skips_deletions=since("2.1"),
        election_bumps_epoch_atomically=since("2.1"),
        lists_notifications_when_processed=since("1.1"),
        failover_deletes_notifications=since("1.1"),
        preempted_callers_are_answered=since("2.2"),
        preempted_reassignments_are_answered=since("2.7"),
        controller_json_version=2 if since("3.4") else 1,
        topic_json_version=3 if since("2.8") else 2 if since("2.4") else 1,
        broker_json_version=5 if ibp.at_least("2.7-IV0") else 4,
        scala_2_13=since("2.4"),
        request_znodes_read_strictly=since("2.0"),
        min_isr_capped_by_replicas=since("3.7"),
        unclean_leader_election_default=not since("0.11.0"),
        delete_topic_default=since("1.0"),
    )


_TOPIC_ID_JSON, _ADDING_JSON = 3, 2  # versions of the topic znode
_FEATURES_JSON = 5  # version of a broker's znode
VERSION_ZNODES: Mapping[str, str] = {
    "/config/ips": "2.8",
    "/feature": "2.7",
    "/kafka-acl-extended": "2.0",
    "/config/brokers/<default>": "1.1",
    "/delegation_token/tokens": "1.1",
    "/log_dir_event_notification": "1.0",
    "/latest_producer_id_block": "0.11.0",
}
"""Znodes that no version before the named one creates (Kafka's `ZkData`).

Every broker creates the first, and the last two, when it starts; the controller writes `/feature`; the others exist where
somebody used what they are for.
"""


class Evidence(NamedTuple):
    """What a snapshot shows of the version of its brokers; None or empty where it shows nothing."""

    broker_json_versions: tuple[int, ...] = ()
    topic_json_versions: tuple[int, ...] = ()
    controller_json_version: int | None = None
    controller_epoch_version: int | None = None  # znode version minus content, plus one: 1 since 2.1, 0 before
    has_recovery_state: bool = False
    version_znodes: Collection[str] = ()  # those of VERSION_ZNODES that exist


class Detected(NamedTuple):
    """The version that a snapshot lets us assume: the oldest one that writes everything that was seen."""

    version: str
    reasons: tuple[str, ...]


def detect_version(evidence: Evidence) -> Detected:
    """The oldest Kafka version that explains what a snapshot holds.

    The newest sign decides, of two of one version the one that stands first. A cluster may be newer than what it has
    written so far, so an operator who knows better names the version.
    """
    signs: Iterable[tuple[str, bool, str]] = (
        ("3.4", (evidence.controller_json_version or 0) > 1, "/controller carries kraftControllerEpoch"),
        ("3.2", evidence.has_recovery_state, "a state znode carries leader_recovery_state"),
        ("2.8", _TOPIC_ID_JSON in evidence.topic_json_versions, "a topic znode has version 3"),
        ("2.7", _FEATURES_JSON in evidence.broker_json_versions, "a broker is registered with version 5"),
        ("2.4", _ADDING_JSON in evidence.topic_json_versions, "a topic znode has version 2"),
        ("2.1", (evidence.controller_epoch_version or 0) > 0, "/controller_epoch was created with 0"),
        *((version, path in evidence.version_znodes, f"{path} exists") for path, version in VERSION_ZNODES.items()),
    )
    oldest = Detected(MINOR_VERSIONS[0], ("nothing that a later version writes was found",))
    found = (Detected(version, (reason,)) for version, applies, reason in signs if applies)
    return max(found, key=lambda detected: parse_version(detected.version), default=oldest)
