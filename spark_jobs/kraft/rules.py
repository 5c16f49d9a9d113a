"""R1 to R25: each precondition of a migration to KRaft with what happens where it is ignored, and what mends it.

Source: docs/kraft.md, which says of each rule how it was measured.
"""

from collections.abc import Mapping
from typing import Any, Final

from spark_jobs.kraft import cluster, entities, topics
from spark_jobs.kraft.judged import Judged, Rule
from spark_jobs.kraft.tree import Tree


def _rule(rule_id: str, title: str, judge: Any, ignored: str, mend: str) -> Rule:
    return Rule(id=rule_id, title=title, judge=judge, ignored=ignored, mend=mend)


RULES: Final = (
    _rule("R1", "software of brokers and quorum", cluster.software, "known bugs lose metadata", "upgrade first, in a step of its own"),
    _rule("R2", "one inter.broker.protocol.version", cluster.protocol_version, "brokers cannot register with the quorum", "raise it, or format the quorum with --release-version"),
    _rule("R3", "ids of topics", topics.ids, "one such topic holds up the whole migration", "a controller with inter.broker.protocol.version 2.8 adds ids when it is elected"),
    _rule("R4", "brokers of all replicas", topics.brokers, "the migration waits for them for ever", "start them, or reassign or delete what they hold"),
    _rule("R5", "no trace of a migration", cluster.no_migration, "a fresh quorum may delete every topic", "finish the way back: delete /migration and /controller while no quorum runs"),
    _rule("R6", "states of partitions", topics.states, "a state is invented, or the controller ends after its claim", "a controller election writes missing ones"),
    _rule("R7", "replicas and producer ids", topics.producer_ids_and_replicas, "the controller ends after its claim", "delete the topic, or the znode while no broker needs it"),
    _rule("R8", "in-sync replicas", topics.in_sync, "copied as it is; KRaft does not repair it", "elect or reassign"),
    _rule("R9", "nothing under way", topics.under_way, "requests are left lying, queued topics deleted", "wait, or plan what ends it: `plan drain` finishes requests and notices, `plan cancel` takes reassignments back; a queued deletion goes on when its brokers, or empty ones with their ids, run; with all brokers stopped `restore newest --kraft-repairs --brokers-stopped` ends all of it"),
    _rule("R10", "configs are strings", entities.config_values, "the controller ends after its claim", "delete or correct the config"),
    _rule("R11", "configs of topics", topics.configs, "configs without a topic are deleted, others copied unusable", "`restore newest --kraft-repairs` removes configs without a topic; correct the others"),
    _rule("R12", "quotas and credentials", entities.quotas, "the cluster is left without metadata", "correct them before any broker is rolled: `restore newest --kraft-repairs` does for quotas"),
    _rule("R13", "passwords in brokers' configs", entities.passwords, "the encrypted text becomes the password", "give the quorum the brokers' password.encoder.*, or remove the configs"),
    _rule("R14", "Kafka's ACLs", entities.acls, "rules vanish, or the controller ends", "correct them"),
    _rule("R15", "authorizer", entities.authorizer, "no ACL is enforced in KRaft", "plan StandardAuthorizer with super users"),
    _rule("R16", "delegation tokens", entities.tokens, "tokens cannot be used", "give the quorum delegation.token.secret.key, or let them expire"),
    _rule("R17", "id of the cluster", cluster.cluster_id, "registrations are refused", "format the quorum anew"),
    _rule("R18", "ids of controllers", cluster.controller_ids, "a broker with such an id does not start in KRaft mode", "choose another node.id"),
    _rule("R19", "ids of brokers", cluster.broker_ids, "the broker does not start in migration mode", "set broker.id"),
    _rule("R20", "log directories", cluster.log_dirs, "the broker does not start in migration mode", "raise inter.broker.protocol.version to 3.7 or newer"),
    _rule("R21", "listener between brokers", cluster.listeners, "registrations are refused", "name a listener that all brokers have"),
    _rule("R22", "listeners in dynamic configs", cluster.dynamic_listeners, "the KRaft broker refuses them", "remove them"),
    _rule("R23", "login of controllers", cluster.identity, "the migration hangs or the controller ends", "use the brokers' login"),
    _rule("R24", "what is not copied", cluster.lost, "it stays in ZooKeeper and is gone with it", "know it"),
    _rule("R25", "what was not read", cluster.unread, "it is not judged", "give the snapshots the right to read it"),
)  # fmt: skip
"""Every rule, in the order of docs/kraft.md."""


def judge_all(tree: Tree) -> Mapping[str, Judged]:
    """Id of a rule → what it says of the tree. Never raises for what the tree holds."""
    return {rule.id: rule.judge(tree) for rule in RULES}
