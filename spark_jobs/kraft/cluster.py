"""R1, R2, R5, R17 to R25: versions, the state of a migration, identities, and what a snapshot cannot tell.

Source: Kafka 3.9 `KafkaServer`, `KRaftMigrationDriver`, `RegisterBrokerRecord`; docs/kraft.md.
"""

from collections.abc import Iterator
from typing import Final

from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes import (
    TOPICS,
    decode_broker,
    decode_cluster_id,
    decode_config,
    decode_controller,
    decode_controller_epoch,
)
from spark_jobs.kraft import topics
from spark_jobs.kraft.judged import Judged, Verdict, against
from spark_jobs.kraft.phase import phase_of
from spark_jobs.kraft.tree import Tree, is_secret

_CONTROLLER_SINCE_3_4: Final = 2
KNOWN_ROOTS: Final = frozenset(
    [
        "admin",
        "brokers",
        "cluster",
        "config",
        "consumers",
        "controller",
        "controller_epoch",
        "delegation_token",
        "feature",
        "isr_change_notification",
        "kafka-acl",
        "kafka-acl-changes",
        "kafka-acl-extended",
        "kafka-acl-extended-changes",
        "latest_producer_id_block",
        "log_dir_event_notification",
        "migration",
        "zookeeper",
    ]
)
CONFIG_TYPES: Final = frozenset({"brokers", "changes", "clients", "ips", "topics", "users"})
_LISTENERS: Final = frozenset({"listeners", "advertised.listeners"})


def software(tree: Tree) -> Judged:
    """R1: brokers of 3.6.2 or 3.7.1 at least; 3.9.2 is advised. `/controller` only tells 3.4 from older."""
    if tree.data("/controller") is not None:
        try:
            version = decode_controller(tree.data("/controller")).version
        except MalformedZnodeError as error:
            return Judged(Verdict.NOT_MET, (str(error),))
        if version < _CONTROLLER_SINCE_3_4:
            return Judged(Verdict.NOT_MET, (f"/controller: version {version}, written by Kafka before 3.4",))
    return Judged(
        Verdict.ASK, ("ask each broker for its software version (kafka-broker-api-versions.sh): 3.9.2 is advised",)
    )


def protocol_version(tree: Tree) -> Judged:
    """R2: one inter.broker.protocol.version everywhere, equal to the quorum's metadata.version."""
    if any(not isinstance(topic, str) and topic.topic_id is None for topic in tree.topics.values()):
        return Judged(
            Verdict.NOT_MET, (f"{TOPICS}: a topic without topic_id: inter.broker.protocol.version was below 2.8",)
        )
    question = "server.properties: inter.broker.protocol.version equal on all brokers, and the quorum formatted with --release-version of it"
    return Judged(Verdict.ASK, (question,))


def no_migration(tree: Tree) -> Judged:
    """R5: no trace of a migration, and a controller epoch that is a number."""
    phase = phase_of(tree)
    found = [] if phase.may_write else [f"{phase.text}: {phase.advice}"]
    try:
        decode_controller_epoch(tree.data("/controller_epoch"))
    except MalformedZnodeError as error:
        found.append(str(error) if "/controller_epoch" in tree else "/controller_epoch: missing")
    return against(found)


def cluster_id(tree: Tree) -> Judged:
    """R17: the quorum is formatted with this id; the driver itself never compares."""
    try:
        found = decode_cluster_id(tree.data("/cluster/id"))
    except MalformedZnodeError as error:
        return Judged(Verdict.NOT_MET, (str(error) if "/cluster/id" in tree else "/cluster/id: missing",))
    return Judged(Verdict.ASK, (f"meta.properties of each controller: cluster.id={found}",))


def controller_ids(tree: Tree) -> Judged:
    """R18: ids of controllers differ from those of brokers."""
    taken = sorted(tree.registered | set(tree.replica_brokers))
    return Judged(Verdict.ASK, (f"controller.properties: node.id is none of {taken}",))


def broker_ids(tree: Tree) -> Judged:
    """R19: ids of brokers are set, not generated."""
    seqid = tree.znodes.get("/brokers/seqid")
    if seqid is not None and seqid.version > 0:
        return Judged(
            Verdict.DECIDE,
            (f"/brokers/seqid: {seqid.version} ids were generated; server.properties must say broker.id",),
        )
    return Judged(Verdict.ASK, ("server.properties: broker.id is set on every broker",))


def log_dirs(tree: Tree) -> Judged:
    """R20: one log directory, or an inter.broker.protocol.version of 3.7-IV2; all directories healthy."""
    del tree
    return Judged(Verdict.ASK, ("server.properties: one log.dirs, or inter.broker.protocol.version 3.7 and newer",))


def listeners(tree: Tree) -> Judged:
    """R21: the quorum names a listener that every broker registers."""
    common = common_listeners(tree)
    if not common:
        return Judged(Verdict.DECIDE, ("/brokers/ids: brokers have no listener name in common",))
    return Judged(Verdict.ASK, (f"controller.properties: inter.broker.listener.name is one of {sorted(common)}",))


def common_listeners(tree: Tree) -> frozenset[str]:
    """Names of the listeners that every broker registers; R4 judges registrations that cannot be read."""
    names: list[frozenset[str]] = []
    for broker in tree.registered:
        path = f"/brokers/ids/{broker}"
        try:
            endpoints = decode_broker(tree.data(path), path=path).broker.endpoints
        except MalformedZnodeError:
            continue
        names.append(frozenset(each.listener for each in endpoints))
    return frozenset.intersection(*names) if names else frozenset()


def dynamic_listeners(tree: Tree) -> Judged:
    """R22: no dynamic listeners; `control.plane.listener.name` goes when brokers become KRaft brokers."""
    found = list(_dynamic_listeners(tree))
    if found:
        return Judged(Verdict.DECIDE, tuple(found))
    return Judged(
        Verdict.ASK, ("server.properties: control.plane.listener.name is removed when a broker becomes a KRaft broker",)
    )


def _dynamic_listeners(tree: Tree) -> Iterator[str]:
    for name in tree.children("/config/brokers"):
        path = f"/config/brokers/{name}"
        try:
            config = (
                tree.public_configs.get(path, {})
                if is_secret(tree, path)
                else decode_config(tree.data(path), path=path).config
            )
        except MalformedZnodeError:
            continue  # R10 names it
        yield from (f"{path}: {key}" for key in sorted(_LISTENERS & config.keys()))


def identity(tree: Tree) -> Judged:
    """R23: controllers log in to ZooKeeper as the brokers do."""
    del tree
    return Judged(
        Verdict.ASK,
        ("controller.properties: the same ZooKeeper login or certificate, and zookeeper.set.acl, as the brokers'",),
    )


def lost(tree: Tree) -> Judged:
    """R24: what the migration leaves behind without a word."""
    found = [f"/{name}: not Kafka's, not copied" for name in tree.children("/") if name not in KNOWN_ROOTS]
    found += (
        [f"/consumers: {len(tree.children('/consumers'))} groups of old consumers"]
        if tree.children("/consumers")
        else []
    )
    found += [f"/config/{name}: not copied" for name in tree.children("/config") if name not in CONFIG_TYPES]
    found += [f"{path}: its topic lists no such partition" for path in topics.unlisted_states(tree)]
    found += topics.doubtful_names(tree)
    return against(found, Verdict.DECIDE)


def unread(tree: Tree) -> Judged:
    """R25: what the snapshot was not allowed to read is not judged."""
    return against((f"{path}: not read, so not judged" for path in tree.unread()), Verdict.DECIDE)
