"""The three-way comparison of a rehearsal: snapshot ↔ records, records ↔ Kafka's own count, tree before ↔ after.

Source: docs/kraft.md, "Rehearsal", which says what Kafka does with each.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import ZERO_TOPIC_ID
from controller_core.znodes import TOPICS, decode_config
from kafka_maintenance.operations.kraft.rehearsal.difference import Difference, Kind
from kafka_maintenance.operations.kraft.rehearsal.expected import UNKNOWN, Fact, as_number, expected_facts, facts_of
from kafka_maintenance.operations.kraft.rehearsal.records import REDACTED, Migrated
from spark_jobs.kraft import topics
from spark_jobs.kraft.cluster import CONFIG_TYPES, KNOWN_ROOTS
from spark_jobs.kraft.tree import NOTIFICATIONS, REQUESTS, Tree

_COUNTS: Final = re.compile(r"The record types were \{([^}]*)\}")
_TOTAL: Final = re.compile(r"KRaft\. (\d+) records were generated")
_STATE_FIELDS: Final = 3
"""Replicas, adding and removing stand before the state in the value of a partition."""
_MADE_BY_THE_RUN: Final = ("/brokers/ids", "/config/changes", "/controller", "/controller_epoch", "/kafka-acl-changes",
                           "/kafka-acl-extended-changes", "/delegation_token/token_changes", "/migration", "/zookeeper")  # fmt: skip


def compared(tree: Tree, migrated: Migrated, log: str, after: Mapping[str, bytes | None]) -> tuple[Difference, ...]:
    """Every difference, with its class; equal things are counted as `Kind.SAME`.

    Args:
        tree: the copy, before.
        migrated: the records of the transaction.
        log: of the controller.
        after: the copy's tree, path → data, after the migration.
    """
    return (
        *_against_records(tree, migrated),
        *_against_counts(migrated, log),
        *_against_tree(tree, after),
        *_not_copied(tree),
    )


def _against_records(tree: Tree, migrated: Migrated) -> Iterator[Difference]:
    wanted = {fact.key: fact for fact in expected_facts(tree)}
    found = {fact.key: fact for fact in facts_of(migrated.records)}
    unusable = _unusable(tree)
    twins = _twins(tree)
    for key in sorted(wanted.keys() | found.keys(), key=repr):
        mine, theirs = wanted.get(key), found.get(key)
        if theirs is None and mine is not None:
            yield _missing(tree, mine)
        elif mine is None and theirs is not None:
            yield _additional(theirs)
        elif mine is not None and theirs is not None:
            yield _both(mine, theirs, unusable, twins)


def _both(mine: Fact, theirs: Fact, unusable: Mapping[str, list[str]], twins: frozenset[str]) -> Difference:
    where = shown(mine)
    if mine.key[0] == "PARTITION" and len(mine.value) == _STATE_FIELDS:
        if mine.value == theirs.value[:_STATE_FIELDS]:
            return Difference(
                Kind.INVENTED,
                f"{where}: no state in ZooKeeper, the record has leader {theirs.value[3]}, ISR {theirs.value[5]}",
            )
        return Difference(Kind.UNCLASSIFIED, f"{where}: {mine.value} became {theirs.value}")
    if mine.value != theirs.value:
        return Difference(Kind.UNCLASSIFIED, f"{where}: {mine.value!r} became {theirs.value!r}")
    if mine.key[0] == "TOPIC" and mine.key[1] in twins:
        return Difference(Kind.LOST, f"{mine.path}: another topic has the same id; KRaft keeps one of them")
    state_path = f"{TOPICS}/{mine.key[1]}/partitions/{mine.key[2]}/state" if mine.key[0] == "PARTITION" else mine.path
    if state_path in unusable and mine.key[0] in {"PARTITION", "TOPIC"}:
        return Difference(Kind.UNUSABLE, unusable[state_path][0])
    if mine.key[0] == "CONFIG" and mine.value == REDACTED:
        return Difference(Kind.UNUSABLE, f"{where}: a password; check that the quorum can decode it")
    if mine.key[0] == "USER_SCRAM_CREDENTIAL" and not mine.path.startswith("/config/users/"):
        return Difference(
            Kind.INVENTED, f"{mine.path}: a credential that stands here becomes one of user {mine.key[1]}"
        )
    if mine.key[0] == "CONFIG":
        named = tuple(f"{mine.path}: {mine.key[3]}{end}" for end in ("=", " "))
        for reason in unusable.get(mine.path, ()):
            if reason.startswith(named):
                return Difference(Kind.UNUSABLE, reason)
    if mine.key[0] == "ACCESS_CONTROL_ENTRY" and UNKNOWN in mine.key[6:]:
        return Difference(
            Kind.LOST, f"{mine.path}: an operation or permission that Kafka does not know becomes UNKNOWN"
        )
    return Difference(Kind.NOTATION if mine.renamed else Kind.SAME, where)


def _missing(tree: Tree, fact: Fact) -> Difference:
    """What the snapshot has and no record says."""
    kind, name = fact.key[0], fact.key[1] if len(fact.key) > 1 else ""
    where = shown(fact)
    if kind in {"TOPIC", "PARTITION"} and name in tree.queued:
        return Difference(Kind.MEANT, f"{where}: the topic is queued for deletion")
    if kind == "CONFIG" and fact.path.startswith("/config/topics/"):
        topic = fact.path.rpartition("/")[2]
        if topic in tree.queued:
            return Difference(Kind.MEANT, f"{where}: the topic is queued for deletion")
        if topic not in tree.topics:
            return Difference(Kind.LOST, f"{where}: there is no such topic")
    if kind == "ACCESS_CONTROL_ENTRY" and fact.key[1] == UNKNOWN:
        return Difference(Kind.LOST, f"{fact.path}: rules for a type of resource that Kafka does not know")
    if kind == "DELEGATION_TOKEN":
        return Difference(Kind.LOST, f"{fact.path}: no record, the token cannot be read")
    return Difference(Kind.UNCLASSIFIED, f"{where}: in the snapshot, and no record says it")


def _additional(fact: Fact) -> Difference:
    """What a record says and the snapshot does not."""
    return Difference(Kind.UNCLASSIFIED, f"{shown(fact)}: a record says it, and the snapshot does not")


def _against_counts(migrated: Migrated, log: str) -> Iterator[Difference]:
    match, total = _COUNTS.search(log), _TOTAL.search(log)
    if match is None or total is None:
        yield Difference(Kind.UNCLASSIFIED, 'the controller\'s log has no line "Completed migration of metadata"')
        return
    told = {name.removesuffix("_RECORD"): int(count) for name, count in re.findall(r"(\w+)=(\d+)", match[1])}
    found = Counter(migrated.counts)
    for kind in sorted(told.keys() | found.keys()):
        if told.get(kind, 0) != found[kind]:
            yield Difference(
                Kind.UNCLASSIFIED,
                f"{kind}: Kafka's log counts {told.get(kind, 0)} records, the metadata log holds {found[kind]}",
            )
    if int(total[1]) != found.total():
        yield Difference(
            Kind.UNCLASSIFIED, f"Kafka's log counts {total[1]} records, the metadata log holds {found.total()}"
        )


def _against_tree(tree: Tree, after: Mapping[str, bytes | None]) -> Iterator[Difference]:
    for path in sorted(tree.znodes.keys() | after.keys()):
        if path == "/" or _is_below(path, _MADE_BY_THE_RUN):
            if path in after and (path not in tree or tree.data(path) != after[path]):
                yield Difference(Kind.REHEARSAL, f"{path}: written by the controller of the rehearsal")
        elif path not in tree:
            yield _appeared(path, after[path])
        elif path not in after:
            yield _vanished(tree, path)
        elif tree.data(path) != after[path]:
            yield _changed(path, tree.data(path), after[path])


def _appeared(path: str, data: bytes | None) -> Difference:
    if not data:
        return Difference(Kind.REHEARSAL, f"{path}: a parent that the controller makes")
    if path.startswith("/config/"):
        return Difference(Kind.INVENTED, f"{path}: written by the migration under another name; the old znode stays")
    return Difference(Kind.UNCLASSIFIED, f"{path}: appeared")


def _vanished(tree: Tree, path: str) -> Difference:
    parts = path.split("/")
    topic = parts[3] if path.startswith((f"{TOPICS}/", "/config/topics/", "/admin/delete_topics/")) else None
    if topic is not None and topic in tree.queued:
        return Difference(Kind.MEANT, f"{path}: the topic is queued for deletion")
    if topic is not None and path.startswith("/config/topics/") and f"{TOPICS}/{topic}" not in tree:
        return Difference(Kind.LOST, f"{path}: there is no such topic; the znode is deleted")
    if path.startswith(("/kafka-acl", "/delegation_token/tokens/")):
        return Difference(Kind.LOST, f"{path}: what cannot be read is deleted")
    return Difference(Kind.UNCLASSIFIED, f"{path}: deleted")


def _changed(path: str, before: bytes | None, after: bytes | None) -> Difference:
    was, now = _parsed(before), _parsed(after)
    if was is not None and was == now:
        return Difference(Kind.NOTATION, f"{path}: same values, written again")
    if path.startswith("/config/") and was is not None and now is not None and _numbers(was) == _numbers(now):
        return Difference(Kind.NOTATION, f"{path}: same numbers, written again")
    if path.startswith("/delegation_token/tokens/"):
        return Difference(Kind.NOTATION, f"{path}: written again")
    if path == "/latest_producer_id_block":
        return Difference(Kind.REHEARSAL, f"{path}: a block for the controller of the rehearsal")
    return Difference(Kind.UNCLASSIFIED, f"{path}: other data than before")


def _not_copied(tree: Tree) -> Iterator[Difference]:
    """What has no record and stays in ZooKeeper."""
    for path in sorted(tree.znodes):
        if path in REQUESTS or path.rpartition("/")[0] in NOTIFICATIONS:
            yield Difference(Kind.MEANT, f"{path}: a request or notice that stays and is never carried out")
        elif path.startswith("/consumers/"):
            yield Difference(Kind.MEANT, f"{path}: old consumers' offsets stay in ZooKeeper")
    for path in topics.unlisted_states(tree):
        yield Difference(Kind.LOST, f"{path}: the topic lists no such partition; the state stays behind")
    for path in _unread_configs(tree):
        yield Difference(Kind.LOST, f"{path}: cannot be read, so no config is copied")
    for name in tree.children("/"):
        if name not in KNOWN_ROOTS:
            yield Difference(Kind.LOST, f"/{name}: not Kafka's, not copied")
    for name in tree.children("/config"):
        if name not in CONFIG_TYPES:
            yield Difference(Kind.LOST, f"/config/{name}: a type of config that is not copied")


def _unread_configs(tree: Tree) -> Iterator[str]:
    for kind in CONFIG_TYPES - {"changes"}:
        for path in tree.below(f"/config/{kind}"):
            if not tree.data(path) and (tree.children(path) or path.endswith("/clients")):
                continue  # the parent of other configs
            try:
                decode_config(tree.data(path), path=path)
            except MalformedZnodeError:
                yield path


def _unusable(tree: Tree) -> Mapping[str, list[str]]:
    """Path → why what is copied from it verbatim is of no use: of a config a reason for each of its settings."""
    found: dict[str, list[str]] = {}
    for text in (*topics.out_of_order(tree), *topics.doubtful_configs(tree), *topics.doubtful_names(tree)):
        found.setdefault(text.partition(": ")[0], []).append(text)
    return found


def _twins(tree: Tree) -> frozenset[str]:
    """Topics whose id another topic has, too, or whose id is all zeros."""
    ids = {
        name: (topic.topic_id or "").rstrip("=") for name, topic in tree.topics.items() if not isinstance(topic, str)
    }
    count = Counter(ids.values())
    return frozenset(name for name, topic_id in ids.items() if count[topic_id] > 1 or topic_id == ZERO_TOPIC_ID)


def shown(fact: Fact) -> str:
    """The key of a fact for a person, without its value."""
    return " ".join(str(part) for part in fact.key)


def _parsed(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"")
    except ValueError:
        return None


def _numbers(document: Any) -> Any:
    config = document.get("config") if isinstance(document, dict) else None
    return {key: as_number(str(value)) for key, value in config.items()} if isinstance(config, dict) else document


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
