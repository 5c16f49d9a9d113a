"""R3, R4, R6 to R9, R11: topics, their replicas, states and configs.

Source: Kafka 3.9 `ZkMigrationClient.migrateTopics`, `KRaftMigrationDriver.areZkBrokersReadyForMigration`, `TopicConfig`; docs/kraft.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import (
    ZERO_TOPIC_ID,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
    is_topic_name,
)
from controller_core.znodes import TOPICS, decode_config, decode_producer_id_block, decode_state, state_path
from spark_jobs.kraft.judged import Judged, Verdict, against
from spark_jobs.kraft.topic_configs import doubtful_settings
from spark_jobs.kraft.tree import NOTIFICATIONS, REQUESTS, Tree


def ids(tree: Tree) -> Judged:
    """R3: every topic parses and has an id of its own."""
    return against(_bad_ids(tree))


def _bad_ids(tree: Tree) -> Iterator[str]:
    by_id = defaultdict(list)
    for name, topic in tree.topics.items():
        path = f"{TOPICS}/{name}"
        if isinstance(topic, str):
            yield topic
        elif topic.topic_id is None:
            yield f"{path}: no topic_id"
        elif topic.topic_id.rstrip("=") == ZERO_TOPIC_ID:
            yield f"{path}: topic_id is all zeros"
        else:
            by_id[topic.topic_id.rstrip("=")].append(name)
    for topic_id, names in by_id.items():
        if len(names) > 1:
            yield f"{TOPICS}/{{{','.join(names)}}}: one topic_id {topic_id}"


def brokers(tree: Tree) -> Judged:
    """R4: every broker that has a replica is registered, and every registration is a number."""
    strange = [f"{path}: not a broker id" for path in tree.strange_registrations]
    missing = [
        f"/brokers/ids: broker {broker} is missing; it holds {partition}"
        for broker, partition in sorted(tree.replica_brokers.items())
        if broker not in tree.registered
    ]
    nobody = [] if tree.registered else ["/brokers/ids: no broker is registered"]
    return against([*nobody, *strange, *missing])


def states(tree: Tree) -> Judged:
    """R6: every listed partition has a state that can be read."""
    return against(f"{path}: {state}" for path, _, state in _partitions(tree) if isinstance(state, str))


def producer_ids_and_replicas(tree: Tree) -> Judged:
    """R7: no empty list of replicas; the block of producer ids is null or whole."""
    found = [f"{path}: replicas []" for path, assignment, _ in _partitions(tree) if not assignment.replicas]
    block = "/latest_producer_id_block"
    if block in tree and (data := tree.data(block)) is not None:
        try:
            if not data or decode_producer_id_block(data) is None:
                found.append(f"{block}: empty, which is not null")
        except MalformedZnodeError as error:
            found.append(str(error))
    return against(found)


def in_sync(tree: Tree) -> Judged:
    """R8: the ISR is part of the replicas, the leader is in it, all replicas are distinct and their brokers registered."""
    return against(out_of_order(tree), Verdict.DECIDE)


def out_of_order(tree: Tree) -> Iterator[str]:
    """`path of a state: what is wrong with it`, for R8."""
    for path, assignment, state in _partitions(tree):
        if isinstance(state, str):
            continue
        replicas = set(assignment.replicas)
        reasons = []
        if len(replicas) < len(assignment.replicas):
            reasons.append(f"replicas {list(assignment.replicas)} repeat a broker")
        if strangers := sorted(set(state.isr) - replicas):
            reasons.append(f"ISR holds {strangers}, which are no replicas")
        if state.leader not in state.isr:
            reasons.append(f"leader {state.leader} is not in the ISR {list(state.isr)}")
        if offline := sorted(set(state.isr) - tree.registered):
            reasons.append(f"ISR holds {offline}, which are not registered")
        if reasons:
            yield f"{path}: {'; '.join(reasons)}"


def under_way(tree: Tree) -> Judged:
    """R9: no deletion, reassignment, election or notice is pending."""
    found = [f"/admin/delete_topics/{name}" for name in sorted(tree.queued)]
    found += [path for path in REQUESTS if path in tree]
    found += [f"{parent}/{name}" for parent in NOTIFICATIONS for name in tree.children(parent)]
    found += [
        f"{TOPICS}/{name}: partition {number} adding {list(lists.adding)}, removing {list(lists.removing)}"
        for name, topic in tree.topics.items()
        if not isinstance(topic, str) and name not in tree.queued
        for number, lists in sorted(topic.assignments.items())
        if lists.is_being_reassigned
    ]
    return against(found, Verdict.DECIDE)


def configs(tree: Tree) -> Judged:
    """R11: configs of topics are known and valid, and none is without its topic."""
    return against(doubtful_configs(tree), Verdict.DECIDE)


def doubtful_configs(tree: Tree) -> Iterator[str]:
    """`path of a config: what is doubtful`, for R11."""
    for name in tree.children("/config/topics"):
        path = f"/config/topics/{name}"
        if f"{TOPICS}/{name}" not in tree:
            yield f"{path}: there is no such topic; the migration deletes it"
        try:
            config = decode_config(tree.data(path), path=path).config
        except MalformedZnodeError as error:
            yield str(error)
            continue
        yield from (f"{path}: {reason}" for _, reason in doubtful_settings(config))


def unlisted_states(tree: Tree) -> Iterator[str]:
    """Paths of partitions that have a znode, and that their topic does not list."""
    for name, topic in tree.topics.items():
        if not isinstance(topic, str):
            listed = {str(number) for number in topic.assignments}
            parent = f"{TOPICS}/{name}/partitions"
            yield from (f"{parent}/{number}" for number in tree.children(parent) if number not in listed)


def doubtful_names(tree: Tree) -> Iterator[str]:
    """`path of a topic: what is wrong with its name`, for R24."""
    alike = Counter(name.replace(".", "_") for name in tree.topics)
    for name in tree.topics:
        if not is_topic_name(name):
            yield f"{TOPICS}/{name}: not a legal name"
        elif alike[name.replace(".", "_")] > 1:
            yield f"{TOPICS}/{name}: its metrics collide with those of another topic"


def _partitions(tree: Tree) -> Iterator[tuple[str, ReplicaAssignment, LeaderAndIsr | str]]:
    """Path of the state, assignment, and the state or what is wrong with it; of all topics that are not being deleted."""
    for name, topic in tree.topics.items():
        if isinstance(topic, str) or name in tree.queued:
            continue
        for number, assignment in sorted(topic.assignments.items()):
            path = state_path(TopicPartition(name, number))
            znode = tree.znodes.get(path)
            if znode is None:
                yield path, assignment, "missing; the migration would invent one with every replica in sync"
                continue
            try:
                yield path, assignment, decode_state(znode.data, path=path, version=znode.version)
            except MalformedZnodeError as error:
                yield path, assignment, error.what
