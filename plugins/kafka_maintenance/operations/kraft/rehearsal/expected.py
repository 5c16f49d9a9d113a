"""The records that a tree should become: what an operator expects who reads the snapshot, znode by znode.

Source: Kafka 3.9 `ZkMigrationClient`, `ZkConfigMigrationClient`, `ZkAclMigrationClient`; the record schemas in metadata/src/main/resources/common/metadata.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from controller_core.adapters.snapshot.secrets import is_secret_config
from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes import TOPICS, decode_acl, decode_config, decode_producer_id_block
from controller_core.znodes.paths import DEFAULT_ENTITY
from kafka_maintenance.operations.kraft.rehearsal.records import OF_THE_RUN, REDACTED, Record
from spark_jobs.kraft.entities import OPERATIONS, PERMISSIONS, RESOURCES
from spark_jobs.kraft.tree import Tree

_TOPIC, _BROKER = 2, 4
_PATTERNS: Final = {"literal": 3, "prefixed": 4}
UNKNOWN: Final = 0
_SCRAM: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_ENTITIES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}

Key = tuple[Any, ...]


class Fact(NamedTuple):
    """One thing that a record says. `key` names it, beginning with the record's type; `path` is the znode that it comes from.

    `renamed`: the record writes the name or the number in another way than the znode.
    """

    key: Key
    value: Any
    path: str = ""
    renamed: bool = False


def expected_facts(tree: Tree) -> Iterator[Fact]:
    """What the tree says, of everything in it that can be read."""
    for name, topic in tree.topics.items():
        if not isinstance(topic, str):
            path = f"{TOPICS}/{name}"
            yield Fact(("TOPIC", name), (topic.topic_id or "").rstrip("="), path)
            for number, assignment in sorted(topic.assignments.items()):
                lists = (list(assignment.replicas), list(assignment.adding), list(assignment.removing))
                yield Fact(("PARTITION", name, number), (*lists, *_state(tree, name, number)), path)
    yield from _configs(tree)
    yield from _quotas_and_credentials(tree)
    yield from _acls(tree)
    block = tree.data("/latest_producer_id_block")
    if block:
        try:
            found = decode_producer_id_block(block)
        except MalformedZnodeError:
            found = None
        if found is not None:
            yield Fact(("PRODUCER_IDS",), found.block_end + 1, "/latest_producer_id_block")
    for token in tree.children("/delegation_token/tokens"):
        yield Fact(("DELEGATION_TOKEN", token), REDACTED, f"/delegation_token/tokens/{token}")


def facts_of(records: tuple[Record, ...]) -> Iterator[Fact]:
    """What the records say, in the same words. Partition epochs, directories and random ids are left out."""
    names: dict[str, str] = {}
    for kind, data in records:
        match kind:
            case "TOPIC":
                names[data["topicId"]] = data["name"]
                yield Fact(("TOPIC", data["name"]), data["topicId"])
            case "PARTITION":
                lists = (data["replicas"], data.get("addingReplicas") or [], data.get("removingReplicas") or [])
                state = (data["leader"], data["leaderEpoch"], data["isr"], data.get("leaderRecoveryState", 0))
                yield Fact(
                    ("PARTITION", names.get(data["topicId"], data["topicId"]), data["partitionId"]), (*lists, *state)
                )
            case "CONFIG":
                yield Fact(("CONFIG", data["resourceType"], data["resourceName"], data["name"]), data["value"])
            case "CLIENT_QUOTA":
                entity = tuple(sorted((each["entityType"], each["entityName"]) for each in data["entity"]))
                entity = tuple((kind, DEFAULT_ENTITY if name is None else name) for kind, name in entity)
                yield Fact(("CLIENT_QUOTA", entity, data["key"]), data["value"])
            case "USER_SCRAM_CREDENTIAL":
                yield Fact(("USER_SCRAM_CREDENTIAL", data["name"], data["mechanism"]), data["iterations"])
            case "ACCESS_CONTROL_ENTRY":
                resource = (data["resourceType"], data["resourceName"], data["patternType"])
                rule = (data["principal"], data["host"], data["operation"], data["permissionType"])
                yield Fact(("ACCESS_CONTROL_ENTRY", *resource, *rule), None)
            case "PRODUCER_IDS":
                yield Fact(("PRODUCER_IDS",), data["nextProducerId"])
            case "DELEGATION_TOKEN":
                yield Fact(("DELEGATION_TOKEN", data["tokenId"]), REDACTED)
            case _ if kind not in OF_THE_RUN:
                yield Fact((kind, str(data)), None)


def _state(tree: Tree, topic: str, number: int) -> tuple[Any, ...]:
    """Leader, leader epoch, ISR and recovery state; () where there is none that can be read."""
    state = tree.state(topic, number)
    return () if state is None else (state.leader, state.leader_epoch, list(state.isr), int(state.recovery.value))


def _configs(tree: Tree) -> Iterator[Fact]:
    for kind, code in (("topics", _TOPIC), ("brokers", _BROKER)):
        for name in tree.children(f"/config/{kind}"):
            path = f"/config/{kind}/{name}"
            for key, value in config_at(tree, path).items():
                shown = REDACTED if is_secret_config(kind, key) else value
                yield Fact(
                    ("CONFIG", code, "" if name == DEFAULT_ENTITY else name, key), shown, path, name == DEFAULT_ENTITY
                )


def _quotas_and_credentials(tree: Tree) -> Iterator[Fact]:
    for root in _ENTITIES:
        for path in tree.below(f"/config/{root}"):
            parts = path.split("/")[2:]
            if len(parts) % 2:
                continue  # /config/users/<user>/clients
            names = [
                (_ENTITIES.get(kind, kind), unquote(name)) for kind, name in zip(parts[::2], parts[1::2], strict=True)
            ]
            entity = tuple(sorted(names))
            renamed = any(unquote(name) != name or name == DEFAULT_ENTITY for name in parts[1::2])
            for key, value in config_at(tree, path).items():
                if key in _SCRAM:
                    yield Fact(("USER_SCRAM_CREDENTIAL", names[-1][1], _SCRAM[key]), iterations(value), path, renamed)
                else:
                    number = as_number(value)
                    yield Fact(("CLIENT_QUOTA", entity, key), number, path, renamed or not value.isdecimal())


def _acls(tree: Tree) -> Iterator[Fact]:
    for root, depth in (("/kafka-acl", 3), ("/kafka-acl-extended", 4)):
        for path in tree.below(root):
            parts = path.split("/")
            if len(parts) != depth + 1:
                continue
            pattern = _PATTERNS.get(parts[2] if root == "/kafka-acl-extended" else "literal", UNKNOWN)
            try:
                entries = decode_acl(tree.data(path), path=path)
            except MalformedZnodeError:
                continue
            for entry in entries:
                resource = (RESOURCES.get(parts[-2], UNKNOWN), parts[-1], pattern)
                operation = OPERATIONS.get(entry.operation.lower(), UNKNOWN)
                permission = PERMISSIONS.get(entry.permission_type.lower(), UNKNOWN)
                rule = (entry.principal, entry.host, operation, permission)
                yield Fact(("ACCESS_CONTROL_ENTRY", *resource, *rule), None, path)


def config_at(tree: Tree, path: str) -> Mapping[str, str]:
    """The settings of a config znode; none where it cannot be read."""
    try:
        return decode_config(tree.data(path), path=path).config
    except MalformedZnodeError:
        return {}


def as_number(text: str) -> float | str:
    """A quota as Kafka writes it; the text where it is no number."""
    try:
        return float(text)
    except ValueError:
        return text


def iterations(credential: str) -> int:
    """Of a SCRAM credential `salt=…,stored_key=…,server_key=…,iterations=N`; 0 where it has none."""
    found = dict(part.split("=", 1) for part in credential.split(",") if "=" in part).get("iterations", "")
    return int(found) if found.isdecimal() else 0
