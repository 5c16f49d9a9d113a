"""The run-book of one cluster's migration, from its own data: steps to tick off, with the check and the way back of each phase.

Source: docs/kraft.md, "Run-book"; Kafka 3.9 documentation, "ZooKeeper to KRaft Migration"; KIP-866 for the metrics.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from controller_core.model.errors import MalformedZnodeError
from controller_core.model.words import counted
from controller_core.znodes import decode_broker, decode_cluster_id
from kafka_maintenance.operations.kraft.certificate import Certificate
from spark_jobs.kraft.cluster import common_listeners
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.rules import RULES
from spark_jobs.kraft.tree import Tree

CONTROLLERS: Final = 3
_CONTROLLER_ID_MIN: Final = 3000
_NO_RACK: Final = "-"


class BrokerLine(NamedTuple):
    """A broker as the run-book lists it; `leaders` and `replicas` are counts of partitions."""

    broker: int
    rack: str
    leaders: int
    replicas: int


def runbook(certificate: Certificate, tree: Tree, rehearsal: Mapping[str, Any] | None = None) -> str:
    """The run-book as Markdown.

    Args:
        certificate: of the same snapshot.
        tree: of the snapshot.
        rehearsal: the document of `kraft rehearse --json`; None: its counts and times are left open.
    """
    parts = (
        _head(certificate, rehearsal),
        _before(certificate),
        _quorum(certificate, tree),
        _into_migration_mode(tree),
        _the_copy(rehearsal),
        _into_kraft_mode(certificate, tree),
        _dual_write(),
        _the_end(certificate),
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def brokers_in_order(tree: Tree) -> Sequence[BrokerLine]:
    """Registered brokers, one rack after the other; inside a rack those with the fewest leaders first."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for name, topic in tree.topics.items():
        for number, assignment in () if isinstance(topic, str) else topic.assignments.items():
            replicas.update(assignment.replicas)
            state = tree.state(name, number)
            if state is not None:
                leaders[state.leader] += 1
    lines = [BrokerLine(broker, _rack(tree, broker), leaders[broker], replicas[broker]) for broker in tree.registered]
    return sorted(lines, key=lambda line: (line.rack, line.leaders, line.broker))


def controller_ids(tree: Tree, count: int = CONTROLLERS) -> Sequence[int]:
    """Ids for controllers that no broker has or had: the first free ones from 3000 on."""
    taken = tree.registered | set(tree.replica_brokers)
    free = (
        number for number in range(_CONTROLLER_ID_MIN, _CONTROLLER_ID_MIN + len(taken) + count) if number not in taken
    )
    return [next(free) for _ in range(count)]


def _head(certificate: Certificate, rehearsal: Mapping[str, Any] | None) -> Iterator[str]:
    yield f"# {certificate.cluster}: from ZooKeeper to KRaft"
    yield ""
    yield f"Made from snapshot {certificate.snapshot} of {certificate.taken_at:%Y-%m-%d %H:%M} UTC, digest {certificate.digest[:12]}."
    yield f"Phase then: {certificate.phase.id.value}, {certificate.phase.text}. Counts until {certificate.expires_at:%Y-%m-%d %H:%M} UTC: make it anew on the day."
    if rehearsal is None:
        yield "No rehearsal is known: run `kafka-maintenance kraft rehearse`, and make this document again."
    elif rehearsal["digest"] != certificate.digest:
        yield f"**The rehearsal is of another snapshot (digest {rehearsal['digest'][:12]}): rehearse this one before the day.**"
    elif not rehearsal["passed"]:
        yield "**The rehearsal of this snapshot was not passed: start no migration.**"
    else:
        yield f"Rehearsed with a controller of Kafka {rehearsal['kafka_version']}: passed."


def _before(certificate: Certificate) -> Iterator[str]:
    yield "## 0. Before"
    yield ""
    for verdict, head in ((Verdict.NOT_MET, "not met, mend"), (Verdict.DECIDE, "decide"), (Verdict.ASK, "ask")):
        for rule in RULES:
            judged = certificate.judged[rule.id]
            if judged.verdict is verdict:
                yield from (f"- [ ] {rule.id} {head}: {evidence}" for evidence in judged.evidence)
    yield "- [ ] Freeze deletions of topics, reassignments, changes of quotas, and every tool that writes to ZooKeeper."
    yield "- [ ] Take a snapshot, pin it, and keep ZooKeeper's data directories."
    yield "- [ ] `kafka-maintenance kraft rehearse --with-brokers 1 --broker-config server.properties` passes: a real broker starts with the planned settings, in migration mode and in KRaft mode."
    yield "- [ ] `kafka-maintenance kraft watch` says GO in phase P0."
    yield ""
    yield "Way back: nothing has happened."


def _quorum(certificate: Certificate, tree: Tree) -> Iterator[str]:
    ids = controller_ids(tree)
    yield "## 1. Start the quorum"
    yield ""
    yield f"- [ ] On {CONTROLLERS} hosts of their own, with persistent disks, `controller.properties`:"
    yield ""
    lines = [
        "process.roles=controller",
        f"node.id={ids[0]}    # the others: {', '.join(map(str, ids[1:]))}",
        f"controller.quorum.voters={','.join(f'{number}@HOST{place}:9093' for place, number in enumerate(ids, start=1))}",
        "controller.listener.names=CONTROLLER",
        "listeners=CONTROLLER://:9093",
        f"inter.broker.listener.name={_listener(tree)}    # as on the brokers; with listener.security.protocol.map of all listeners",
        "zookeeper.metadata.migration.enable=true",
        "zookeeper.connect=AS ON THE BROKERS, WITH THE CHROOT",
    ]
    extra = {
        "R13": "password.encoder.secret=AS ON THE BROKERS",
        "R15": "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer    # and super.users",
        "R16": "delegation.token.secret.key=AS ON THE BROKERS",
    }
    lines += [line for rule, line in extra.items() if certificate.judged[rule].verdict is Verdict.DECIDE]
    yield from (f"        {line}" for line in lines)
    yield ""
    yield f"- [ ] On each: `kafka-storage.sh format -t {_cluster_id(tree)} -c controller.properties --release-version IBP` with the brokers' inter.broker.protocol.version."
    yield "- [ ] Start them. Check: `/migration` appears with offset -1; log line *No brokers are known to KRaft, waiting for brokers to register*; metric `ZkMigrationState` is 2."
    yield ""
    yield "Way back: stop the quorum, delete `/migration`."


def _into_migration_mode(tree: Tree) -> Iterator[str]:
    yield "## 2. Roll the brokers into migration mode"
    yield ""
    yield "Each broker gets `zookeeper.metadata.migration.enable=true`, `controller.quorum.voters`, `controller.listener.names=CONTROLLER`, and CONTROLLER in its `listener.security.protocol.map`."
    yield "`inter.broker.protocol.version` stays. Before each restart move its leaders away; after it wait until every ISR is full."
    yield ""
    for line in brokers_in_order(tree):
        yield f"- [ ] Broker {line.broker}, rack {line.rack}: {counted(line.leaders, 'leader')}, {counted(line.replicas, 'replica')}. Check: a new timestamp in `/brokers/ids/{line.broker}`, no *Unable to register broker* in its log, `kraft watch` says GO."
    yield ""
    yield "Way back: roll the brokers back, stop the quorum, delete `/migration`."


def _the_copy(rehearsal: Mapping[str, Any] | None) -> Iterator[str]:
    yield "## 3. The copy"
    yield ""
    yield "It starts by itself when the last broker has registered."
    if rehearsal is not None:
        run = rehearsal["repaired"] or rehearsal["as_it_is"]
        counts = ", ".join(f"{kind}_RECORD={count}" for kind, count in sorted(run["records"].items()))
        yield f"In the rehearsal start of the controller and copy took {run['cost']['migrated_s']:.0f} s, and the records were {counts or 'none: no dual write was reached'}."
    yield ""
    yield "- [ ] Within a minute: `/controller` is persistent with the id of a controller and `kraftControllerEpoch` 0 or more."
    yield "- [ ] `/migration` has an offset of 0 or more, and its version rises twice a second; metric `ZkMigrationState` is 1."
    yield "- [ ] Log line *Completed migration of metadata from ZooKeeper to KRaft* with the counts of the rehearsal; *Made the following ZK writes* only as rehearsed."
    yield "- [ ] A topic made through the Admin API appears in ZooKeeper's tree."
    yield "- [ ] Offset still -1 after a minute, or the version stands still: there is no working controller. **Go back at once.**"
    yield ""
    yield "Way back: stop the quorum; at once delete `/controller` **and `/migration`**; roll the brokers without the migration keys. A second try needs a freshly formatted quorum."


def _into_kraft_mode(certificate: Certificate, tree: Tree) -> Iterator[str]:
    yield "## 4. Roll the brokers into KRaft mode"
    yield ""
    yield "Each broker gets `process.roles=broker` and `node.id` with its id; `zookeeper.*`, `broker.id`, `inter.broker.protocol.version` and `control.plane.listener.name` go."
    if certificate.judged["R15"].verdict is Verdict.DECIDE:
        yield "`authorizer.class.name` becomes `org.apache.kafka.metadata.authorizer.StandardAuthorizer`."
    yield ""
    for line in brokers_in_order(tree):
        yield f"- [ ] Broker {line.broker}, rack {line.rack}: leaders moved away, restarted. Check: `/brokers/ids/{line.broker}` is **gone**, ISRs are full, `kraft watch` says GO."
    yield ""
    yield _WAY_BACK


_WAY_BACK: Final = (
    "Way back: roll the brokers to their ZooKeeper settings **with the migration keys**; stop the quorum; delete `/controller` **and `/migration`**; roll again without the "
    "migration keys. The stop of a broker may wait five minutes for the quorum that is down."
)


def _dual_write() -> Iterator[str]:
    yield "## 5. Dual write, for days"
    yield ""
    yield "- [ ] Daily: `kraft watch --bootstrap-servers …`, which compares brokers and ZooKeeper, metric `ZkWriteBehindLag` small, no *another KRaft controller is making writes to ZooKeeper* in the log."
    yield "- [ ] Nothing but Kafka writes to ZooKeeper: what others write is deleted by the next full synchronisation."
    yield ""
    yield _WAY_BACK


def _the_end(certificate: Certificate) -> Iterator[str]:
    yield "## 6. Finalise: there is no way back"
    yield ""
    yield "- [ ] `kraft watch --metadata-log …` says GO: `/brokers/ids` is empty, and no registration says ZooKeeper. Kafka does not check that (KAFKA-20960)."
    yield "- [ ] On each controller, one at a time: remove `zookeeper.metadata.migration.enable` and `zookeeper.*`, restart. **The first active controller without the flag is the point of no return.**"
    yield "- [ ] Metric `ZkMigrationState` is 3, and `/migration` stands still."
    yield f"- [ ] `kafka-maintenance kraft left --cluster {certificate.cluster} --reason …`: pins the last snapshot, and nothing of this pipeline writes to that ZooKeeper again. Then retire it."


def _cluster_id(tree: Tree) -> str:
    try:
        return decode_cluster_id(tree.data("/cluster/id"))
    except MalformedZnodeError:
        return "CLUSTER_ID (R17)"


def _rack(tree: Tree, broker: int) -> str:
    path = f"/brokers/ids/{broker}"
    try:
        return decode_broker(tree.data(path), path=path).broker.rack or _NO_RACK
    except MalformedZnodeError:
        return _NO_RACK


def _listener(tree: Tree) -> str:
    """A listener that every broker registers, if there is exactly one; else a question."""
    names = common_listeners(tree)
    return next(iter(names)) if len(names) == 1 else f"ONE OF {sorted(names)}"
