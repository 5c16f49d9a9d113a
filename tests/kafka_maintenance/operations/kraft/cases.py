"""The trees of docs/kraft.md, "Predicted and happened": each with one oddity, and what a real controller does with it.

    python -m tests.kafka_maintenance.operations.kraft.cases [--version 3.9] [CASE …]

migrates each with a real controller and prints the table; exit status 1 where a prediction was wrong.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass

from kafka_maintenance.operations.kraft.certificate import certify
from kafka_maintenance.operations.kraft.rehearsal.attempt import End, attempt
from kafka_maintenance.operations.kraft.rehearsal.compare import compared
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.kraft.rehearsal.difference import Kind
from kafka_maintenance.servers import Workspace, ZooKeeperServer
from kafka_maintenance.servers.kraft_controller import Storage
from spark_jobs.kraft.judged import Verdict
from tests.kafka_maintenance.operations.kraft.trees import (
    BROKER,
    GONE,
    KRAFT,
    MANIFEST,
    MIGRATION,
    STATE,
    TOPIC,
    acl,
    config,
    state,
    topic,
    tree,
)

ID_2 = "ZXktdG9waWMtdHdvLTAwMQ"
SECOND = "/brokers/topics/second"
SCRAM = (
    "salt=MWx2NHBkbnJ2amQ3ZXk1Nw==,stored_key=Uf0NeTy5tHG2AOmRHyGVd4ZPIrQBz7FqxrjnPTEVPHo=,"
    "server_key=fu8YPx2jgqlOlnPCL2DxQxlJUNvSbX0bXOlIoCJxg5E=,iterations=4096"
)
TOKEN = {"version": 3, "owner": "User:a", "tokenRequester": "User:a", "renewers": [], "issueTimestamp": 1700000000000,
         "maxTimestamp": 4700000000000, "expiryTimestamp": 4700000000000, "tokenId": "abc"}  # fmt: skip
PASSWORD = "salt:AA==,initializationVector:AA==,encryptedPassword:AA==,passwordLength:8"
MIGRATED, DIED = "dual write", "process ended"
WAITS, CLAIMS, SYNCS, UNBORN = (
    f"hangs {s}" for s in ("WAIT_FOR_BROKERS", "BECOME_CONTROLLER", "SYNC_KRAFT_TO_ZK", "UNINITIALIZED")
)


@dataclass(frozen=True)
class Case:
    """`happens`: the end; `kinds`: classes of differences besides same, notation and rehearsal only; `rules` that say so before."""

    e: str
    title: str
    changes: dict
    happens: str = MIGRATED
    kinds: frozenset = frozenset()
    rules: frozenset = frozenset()
    leftovers: bool = False
    settings: tuple = ()


def case(e, title, changes, happens=MIGRATED, kinds="", rules="", **options):
    named = {
        "lost": Kind.LOST,
        "meant": Kind.MEANT,
        "invented": Kind.INVENTED,
        "unusable": Kind.UNUSABLE,
        "unclassified": Kind.UNCLASSIFIED,
    }
    return Case(
        e, title, changes, happens, frozenset(named[k] for k in kinds.split()), frozenset(rules.split()), **options
    )


def two(second, its_state=None, path=SECOND):
    return {path: second, f"{path}/partitions/0/state": its_state or state()}


EVERYTHING = {
    **two(topic(2, 1, topic_id=ID_2), state(2, (2, 1))),
    "/config/topics/second": config(**{"min.insync.replicas": "1"}),
    "/config/brokers/1": config(**{"log.cleaner.threads": "1"}),
    "/config/users/bob": config(**{"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "5"}),
    "/config/users/<default>": config(consumer_byte_rate="5"),
    "/config/users/CN%3Dbob/clients/<default>": config(request_percentage="5"),
    "/config/clients/<default>": config(producer_byte_rate="1024"),
    "/config/ips/<default>": config(connection_creation_rate="3"),
    "/kafka-acl/Topic/orders": acl(),
    "/kafka-acl-extended/prefixed/Group/g": acl(operation="All"),
    "/delegation_token/tokens/abc": TOKEN,
    "/latest_producer_id_block": {"version": 1, "broker": 1, "block_start": "2000", "block_end": "2999"},
}
KEY = (("delegation.token.secret.key", "x"),)

CASES = (
    case("-", "healthy", {}),
    case("-", "every kind of entity", EVERYTHING, rules="R15 R16", settings=KEY),
    case("1", "no topic_id", {TOPIC: {"version": 2, "partitions": {"0": [1, 2]}}}, WAITS, rules="R2 R3"),
    case("1", "topic of JSON version 1", two({"version": 1, "partitions": {"0": [1, 2]}}), WAITS, rules="R2 R3"),
    case("1", "topic is garbage", {TOPIC: b"{oops"}, WAITS, rules="R3"),
    case("1", "topic is empty", {TOPIC: b""}, WAITS, rules="R3"),
    case("1", "topic is null", {TOPIC: None}, WAITS, rules="R3"),
    case("2", "id is not base64", {TOPIC: topic(1, 2, topic_id="!!not-an-id!!")}, WAITS, rules="R3"),
    case("2", "partition is not a number", {TOPIC: topic(partitions={"a": [1, 2]})}, WAITS, rules="R3"),
    case("3", "two topics with one id", two(topic(1, 2)), MIGRATED, "lost", rules="R3"),
    case("3", "id all zeros", {TOPIC: topic(1, 2, topic_id="A" * 22)}, MIGRATED, "lost", rules="R3"),
    case("4", "replica on an unregistered broker", {TOPIC: topic(1, 9)}, WAITS, rules="R4 R8"),
    case("4", "replica on broker -1", {TOPIC: topic(-1, 1)}, WAITS, rules="R4 R8"),
    case("4", "only of a topic being deleted", {**two(topic(9, topic_id=ID_2), state(9, [9])), "/admin/delete_topics/second": None},
         MIGRATED, "meant", rules="R9"),
    case("4", "adding an unregistered broker", {TOPIC: topic(1, 2, adding_replicas={"0": [9]})}, MIGRATED, rules="R9"),
    case("5", "nobody registered", {"/brokers/ids/1": GONE, "/brokers/ids/2": GONE}, WAITS, rules="R4 R8 R21"),
    case("5", "an id that is no number", {"/brokers/ids/foo": BROKER}, WAITS, rules="R4"),
    case("5", "an id beyond 32 bits", {"/brokers/ids/99999999999": BROKER}, WAITS, rules="R4"),
    case("6", "no state", {STATE: GONE}, MIGRATED, "invented", rules="R6"),
    case("6", "state is garbage", {STATE: b"{oops"}, MIGRATED, "invented", rules="R6"),
    case("7", "state is empty", {STATE: b""}, DIED, rules="R6"),
    case("7", "state is null", {STATE: None}, DIED, rules="R6"),
    case("7", "a field is missing", {STATE: {"leader": 1, "isr": [1, 2]}}, DIED, rules="R6"),
    case("8", "state of an unlisted partition", {f"{TOPIC}/partitions/1/state": state()}, MIGRATED, "lost", rules="R24"),
    case("9", "ISR holds a stranger", {STATE: state(1, [1, 9])}, MIGRATED, "unusable", rules="R8"),
    case("9", "leader is unknown", {STATE: state(7, [1, 2])}, MIGRATED, "unusable", rules="R8"),
    case("9", "leader is not in the ISR", {STATE: state(1, [2])}, MIGRATED, "unusable", rules="R8"),
    case("9", "no leader", {STATE: state(-1, [2])}, MIGRATED, "unusable", rules="R8"),
    case("9", "no leader, no ISR", {STATE: state(-1, [])}, MIGRATED, "unusable", rules="R8"),
    case("9", "leader -2", {STATE: state(-2, [1])}, MIGRATED, "unusable", rules="R8"),
    case("10", "no replicas, no state", {TOPIC: topic(), STATE: GONE}, DIED, rules="R6 R7"),
    case("11", "a broker twice", {TOPIC: topic(1, 1), STATE: state(1, [1, 1])}, MIGRATED, "unusable", rules="R8"),
    case("12", "no partitions", {TOPIC: topic(partitions={}), STATE: GONE}),
    case("12", "a gap", {TOPIC: topic(partitions={"0": [1, 2], "2": [1, 2]}), f"{TOPIC}/partitions/2/state": state()}),
    case("13", "a blank in the name", two(topic(1, 2, topic_id=ID_2), path="/brokers/topics/a b"), MIGRATED, "unusable", rules="R24"),
    case("13", "a name of 260 letters", two(topic(1, 2, topic_id=ID_2), path="/brokers/topics/" + "x" * 260), MIGRATED, "unusable", rules="R24"),
    case("13", "a.b beside a_b", {**two(topic(1, 2, topic_id=ID_2), path="/brokers/topics/a.b"),
                                  **two(topic(1, 2, topic_id="A" + ID_2[1:]), path="/brokers/topics/a_b")}, MIGRATED, "unusable", rules="R24"),
    case("14", "config without its topic", {"/config/topics/ghost": config(**{"retention.ms": "5"})}, MIGRATED, "lost", rules="R11"),
    case("15", "invalid value", {"/config/topics/orders": config(**{"retention.ms": "abc"})}, MIGRATED, "unusable", rules="R11"),
    case("15", "a value out of range", {"/config/topics/orders": config(**{"retention.ms": "-5"})}, MIGRATED, "unusable", rules="R11"),
    case("15", "a policy that is none", {"/config/topics/orders": config(**{"cleanup.policy": "wrong"})}, MIGRATED, "unusable", rules="R11"),
    case("15", "a number between blanks", {"/config/topics/orders": config(**{"retention.ms": " 5 "})}),
    case("15", "unknown key", {"/config/topics/orders": config(**{"no.such.key": "1"})}, MIGRATED, "unusable", rules="R11"),
    case("15", "empty value", {"/config/topics/orders": config(**{"retention.ms": ""})}, MIGRATED, "unusable", rules="R11"),
    case("15", "config is garbage", {"/config/topics/orders": b"{oops"}, MIGRATED, "lost", rules="R11"),
    case("15", "config is empty", {"/config/topics/orders": b""}),
    case("15", "a value is a number", {"/config/topics/orders": b'{"version":1,"config":{"retention.ms":5}}'}, DIED, rules="R10 R11"),
    case("15", "topic without a config", {"/config/topics/orders": GONE}),
    case("16", "reassign_partitions", {"/admin/reassign_partitions": {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [2, 1]}]}}, MIGRATED, "meant", rules="R9"),
    case("16", "preferred_replica_election", {"/admin/preferred_replica_election": {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0}]}}, MIGRATED, "meant", rules="R9"),
    case("16", "notices", {"/isr_change_notification/isr_change_0000000007": {"version": 1, "partitions": []},
                           "/log_dir_event_notification/log_dir_event_0000000001": {"version": 1, "broker": 1, "event": 1}},
         MIGRATED, "meant", rules="R9"),
    case("17", "a reassignment under way", {TOPIC: topic(2, 1, adding_replicas={"0": [2]}, removing_replicas={"0": [1]}), STATE: state(1, [1])},
         rules="R9"),
    case("18", "a queued deletion", {**two(topic(1, 2, topic_id=ID_2)), "/admin/delete_topics/second": None}, MIGRATED, "meant", rules="R9"),
    case("18", "a queued deletion of nothing", {"/admin/delete_topics/ghost": None}, MIGRATED, "meant", rules="R9"),
    case("19", "configs of brokers", {"/config/brokers/1": config(**{"log.cleaner.threads": "2"}), "/config/brokers/77": config(**{"log.cleaner.threads": "2"})}),
    case("20", "config of broker abc", {"/config/brokers/abc": config(**{"log.cleaner.threads": "2"})}, DIED, rules="R10"),
    case("20", "config of broker 99999999999", {"/config/brokers/99999999999": config(**{"log.cleaner.threads": "2"})}, DIED, rules="R10"),
    case("21", "a password, quorum without a secret", {"/config/brokers/1": config(**{"listener.name.internal.ssl.keystore.password": PASSWORD})},
         MIGRATED, "unusable", rules="R13"),
    case("21", "a password, quorum with another secret", {"/config/brokers/1": config(**{"listener.name.internal.ssl.keystore.password": PASSWORD})},
         DIED, rules="R13", settings=(("password.encoder.secret", "other"),)),
    case("23", "a quota is text", {"/config/users/ada": config(producer_byte_rate="abc")}, DIED, rules="R12"),
    case("23", "a note among quotas", {"/config/clients/c": config(note="for team x")}, DIED, rules="R12"),
    case("23", "SCRAM is garbage", {"/config/users/ada": config(**{"SCRAM-SHA-256": "hello"})}, DIED, rules="R12"),
    case("23", "a name that cannot be decoded", {"/config/users/100%": config(producer_byte_rate="1")}, DIED, rules="R12"),
    case("23", "SCRAM below a client of a user", {"/config/users/u/clients/c": config(**{"SCRAM-SHA-256": SCRAM})}, DIED, rules="R12"),
    case("24", "an unknown quota", {"/config/users/ada": config(no_such_rate="5")}, SYNCS, rules="R12"),
    case("24", "a fraction for a client", {"/config/clients/c": config(consumer_byte_rate="2048.5")}, SYNCS, rules="R12"),
    case("24", "a fraction for a user", {"/config/users/ada": config(consumer_byte_rate="2048.5")}, SYNCS, rules="R12"),
    case("24", "a fraction for an ip", {"/config/ips/10.0.0.1": config(connection_creation_rate="5.5")}, SYNCS, rules="R12"),
    case("24", "a negative rate", {"/config/users/ada": config(producer_byte_rate="-5")}, SYNCS, rules="R12"),
    case("24", "a rate beyond 64 bits", {"/config/users/ada": config(producer_byte_rate="99999999999999999999")}, SYNCS, rules="R12"),
    case("24", "a rate of an ip beyond 32 bits", {"/config/ips/10.0.0.1": config(connection_creation_rate="3000000000")}, SYNCS, rules="R12"),
    case("24", "the greatest rates", {"/config/users/ada": config(producer_byte_rate="9223372036854775807"),
                                      "/config/ips/10.0.0.1": config(connection_creation_rate="2147483647")}),
    case("25", "1e6", {"/config/users/ada": config(producer_byte_rate="1e6")}, rules="R12"),
    case("25", "SCRAM at a client", {"/config/clients/c1": config(**{"SCRAM-SHA-256": SCRAM})}, MIGRATED, "invented", rules="R12"),
    case("26", "an ip that is none", {"/config/ips/not_an_ip!": config(connection_creation_rate="5")}, MIGRATED, "invented", rules="R12"),
    case("27", "ACLs", {"/kafka-acl/Topic/*": acl(), "/kafka-acl/Cluster/kafka-cluster": acl(operation="Alter")}, rules="R15"),
    case("27", "ACLs in small letters", {"/kafka-acl/Topic/t": {"version": 1, "acls": [
        {"principal": "User:ada", "permissionType": "deny", "operation": "clusteraction", "host": "*"}]}}, rules="R15"),
    case("28", "an unknown type of resource", {"/kafka-acl/Widget/w": acl()}, MIGRATED, "lost", rules="R14 R15"),
    case("28", "an unknown operation", {"/kafka-acl/Topic/t": acl(operation="Fly")}, MIGRATED, "lost", rules="R14 R15"),
    case("28", "ACL is garbage", {"/kafka-acl/Topic/t": b"{oops"}, MIGRATED, "lost", rules="R14 R15"),
    case("28", "ACL is empty", {"/kafka-acl/Topic/t": b""}, MIGRATED, "lost", rules="R14 R15"),
    case("28", "ACL is an empty list", {"/kafka-acl/Topic/t": {"version": 1, "acls": []}}, MIGRATED, "lost", rules="R14 R15"),
    case("29", "a principal without a type", {"/kafka-acl/Topic/t": acl(principal="ada")}, DIED, rules="R14 R15"),
    case("29", "ACL of version 2", {"/kafka-acl/Topic/t": acl(version=2)}, DIED, rules="R14 R15"),
    case("30", "a token, quorum with a key", {"/delegation_token/tokens/abc": TOKEN}, rules="R16", settings=KEY),
    case("30", "a token is garbage", {"/delegation_token/tokens/abc": b"{oops"}, MIGRATED, "lost", rules="R16", settings=KEY),
    case("31", "producer ids are empty", {"/latest_producer_id_block": b""}, DIED, rules="R7"),
    case("31", "producer ids are garbage", {"/latest_producer_id_block": b"{oops"}, DIED, rules="R7"),
    case("31", "no producer ids", {"/latest_producer_id_block": GONE}),
    case("32", "no controller epoch", {"/controller_epoch": GONE}, CLAIMS, rules="R5"),
    case("32", "an empty controller epoch", {"/controller_epoch": b""}, CLAIMS, rules="R5"),
    case("32", "left-over KRaft epoch 7", {"/controller": {**KRAFT, "kraftControllerEpoch": 7}}, CLAIMS, rules="R5", leftovers=True),
    case("32", "an empty /migration", {"/migration": b""}, UNBORN, rules="R5", leftovers=True),
    case("-", "a /migration left over", {"/migration": MIGRATION | {"kraft_metadata_offset": 3}}, MIGRATED, "unclassified", rules="R5", leftovers=True),
    case("39", "/consumers", {"/consumers/g/offsets/t/0": b"5"}, MIGRATED, "meant", rules="R24"),
    case("39", "a foreign tree", {"/custom/tool": b"x"}, MIGRATED, "lost", rules="R24"),
    case("39", "/feature is garbage", {"/feature": b"{oops"}),
    case("39", "unknown types of config", {"/config/widgets/w": config(a="b"), "/config/client-metrics/m": config(**{"interval.ms": "1000"})},
         MIGRATED, "lost", rules="R24"),
)  # fmt: skip
_QUIET = {Kind.SAME, Kind.NOTATION, Kind.REHEARSAL}


def predicted(each):
    """The rules of the certificate that are not met or to be decided first."""
    found = certify(tree(each.changes), MANIFEST)
    return frozenset(found.verdicts(Verdict.NOT_MET) + found.verdicts(Verdict.DECIDE))


def row(e, title, rules, end, kinds):
    """A row of the page's table."""
    named = ", ".join(sorted(rules, key=lambda rule: int(rule[1:]))) or "nothing"
    return f"| {e} | {title} | {named} | {end} | {', '.join(sorted(kind.value for kind in kinds))} |"


class Stage:
    """Servers of one version, for many cases."""

    def __init__(self, workspace, zookeeper, version):
        self.zookeeper, self.count = zookeeper, 0
        cluster_id = copy_of(tree()).cluster_id
        self.storage = Storage(workspace, version=version, node_id=3000, cluster_id=cluster_id)

    def happened(self, each):
        """The end of a migration of the case's tree, classes of its differences, and the attempt."""
        whole = tree(each.changes)
        copy = copy_of(whole)
        if each.leftovers:
            left = {"/controller", "/migration"} & each.changes.keys()
            copy = copy.with_data({path: whole.data(path) for path in left})
        self.count += 1
        name = f"case-{self.storage.version}-{self.count}"
        found = attempt(copy, self.storage, self.zookeeper, name, dict(each.settings))
        if found.end is not End.DUAL_WRITE:
            return DIED if found.end is End.DIED else f"hangs {found.state}", frozenset(), (), found
        differences = compared(copy.tree, found.records, found.log, found.after)
        told = tuple(each for each in differences if each.kind not in _QUIET)
        return MIGRATED, frozenset(each.kind for each in told), told, found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="3.9")
    parser.add_argument("cases", nargs="*", help="parts of titles; all without one")
    arguments = parser.parse_args()
    wrong = Counter()
    print("| E | tree | certificate says | Kafka does | differences |\n| --- | --- | --- | --- | --- |")
    with Workspace.create_temporary() as workspace, ZooKeeperServer(workspace) as zookeeper:
        stage = Stage(workspace, zookeeper, arguments.version)
        for each in CASES:
            if arguments.cases and not any(part in each.title for part in arguments.cases):
                continue
            rules = predicted(each)
            end, kinds, told, found = stage.happened(each)
            right = (rules, end, kinds) == (each.rules, each.happens, each.kinds)
            wrong[right] += 1
            print(row(each.e, each.title, rules, end, kinds), flush=True)
            if not right:
                print(
                    f"  WRONG: expected {sorted(each.rules)} {each.happens} {sorted(kind.value for kind in each.kinds)}",
                    file=sys.stderr,
                )
                print(
                    "\n".join(f"    {line}" for line in [*map(str, told), *found.log.splitlines()[-6:]]),
                    file=sys.stderr,
                    flush=True,
                )
    print(f"{wrong[True]} as predicted, {wrong[False]} not", file=sys.stderr)
    return 1 if wrong[False] else 0


if __name__ == "__main__":
    sys.exit(main())
