"""What a copy with imitated brokers cannot show: whether real ones start, in migration mode and then in KRaft mode, and whether clients see topics.

Each refusal is explained with its rule; what it names is corrected, and the brokers are started again, so that one run finds all of them.
Source: docs/kraft.md, "Rehearsal"; Kafka 3.9 `KafkaConfig`, `KafkaServer`, `BrokerLifecycleManager` for the messages.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final

from controller_core.adapters.snapshot.tree_writer import NewZnode, write_tree
from controller_core.adapters.zookeeper.session import connect
from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes import TOPICS, decode_config
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.errors import OperationError
from kafka_maintenance.operations.kraft.asked import IBP
from kafka_maintenance.operations.kraft.brokers_say import described_by
from kafka_maintenance.operations.kraft.rehearsal.attempt import DUAL_WRITE, complains
from kafka_maintenance.operations.kraft.rehearsal.copy import Copy
from kafka_maintenance.operations.kraft.rehearsal.obstacle import most_telling
from kafka_maintenance.operations.kraft.rehearsal.planned_broker import (
    AUTHORIZER,
    CONTROL_PLANE,
    STANDARD_AUTHORIZER,
    Place,
    free_place,
    in_kraft_mode,
    in_migration_mode,
    listener_names,
)
from kafka_maintenance.operations.kraft.rehearsal.run import Quorum, free_controller_id
from kafka_maintenance.servers import Workspace, ZooKeeperServer
from kafka_maintenance.servers.imitated_brokers import PLAINTEXT, ImitatedBrokers
from kafka_maintenance.servers.kraft_controller import KRaftController, Storage
from kafka_maintenance.servers.migrating_broker import MigratingBroker
from kafka_maintenance.servers.ports import LOOPBACK, free_port

REFUSALS_MAX: Final = 10
TOPICS_MAX: Final = 100
_STARTED_WITHIN_S: Final = 180.0
_QUIET_S: Final = 20.0
_SYNC: Final = "SYNC_KRAFT_TO_ZK"
_AFTER_REGISTRATION: Final = ("BECOME_CONTROLLER", "ZK_MIGRATION")
"""States in which no broker has still to start: an error in them is the controller's own."""
_ROUND_S: Final = 0.2
_ASKED_WITHIN_S: Final = 20.0
_REFUSED: Final = re.compile(r"Unable to register broker \d+ because the controller returned error (\w+)")
_FATAL: Final = re.compile(r"(?:Fatal error during .*startup|Exiting Kafka due to fatal exception).*\n(\S.*)")
_ELSEWHERE: Final = re.compile(
    r"(advertised\.)?listeners$|listener\.|ssl\.|sasl\.|control\.|log\.cleaner\.|num\.|background\.|.*(class|reporters|interceptors)"
)
"""Dynamic settings of brokers that name hosts, files or classes of the cluster, or sizes for its machines: they are not on this copy (R22 and R13 judge them)."""


class Mode(Enum):
    """In which mode a broker was started."""

    MIGRATION = "migration mode"
    KRAFT = "KRaft mode"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the brokers did not get further.

    Attributes:
        mode: in which they were started.
        broker: which one said it first; None where all waited.
        line: of its log, or of the controller's.
        rule: the precondition that says so; None where none does.
        then: what was corrected for the next start; empty where nothing could be.
    """

    mode: Mode
    broker: int | None
    line: str
    rule: str | None
    then: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithBrokers:
    """How it went with real brokers.

    Attributes:
        brokers: ids of the real ones; the others were imitated.
        reached: all of them run in KRaft mode, in the end.
        refusals: in the order in which they came.
        topics: that a client saw in dual write, and that were on this copy; None where dual write was not reached.
        left_out: topics that were not on this copy.
        total_s: of all starts together.
    """

    brokers: tuple[int, ...]
    reached: bool
    refusals: tuple[Refusal, ...]
    topics: tuple[int, int] | None
    left_out: int
    total_s: float

    @property
    def passed(self) -> bool:
        """All run at the first try, and clients saw every topic."""
        return self.reached and not self.refusals and self.topics is not None and self.topics[0] == self.topics[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the next start is made with; a refusal changes it."""

    copy: Copy
    rest: Copy
    quorum: Quorum
    node_id: int
    listener: str
    settings: Mapping[int, Mapping[str, str]]
    in_kraft: Mapping[str, str | None] = field(default_factory=dict)
    """Settings changed in KRaft mode only; None: removed."""

    def changed(self, change: Callable[[dict[str, str]], object]) -> "Planned":
        """With the settings of every broker changed."""
        settings = {broker: dict(each) for broker, each in self.settings.items()}
        for each in settings.values():
            change(each)
        return replace(self, settings=settings)


def with_real_brokers(
    as_it_is: Copy, rest: Copy, quorum: Quorum, settings: Mapping[int, Mapping[str, str]], workspace: Workspace
) -> WithBrokers:
    """Starts real brokers on the copy, in migration mode until dual write, then one after the other in KRaft mode.

    Args:
        as_it_is: the copy of the snapshot.
        rest: the copy without what stopped the imitated rehearsal; taken where the other one stops this one.
        quorum: what is planned.
        settings: broker → what its server.properties is made of (`planned_broker`); these brokers are real.
        workspace: where the servers keep data and logs.

    Raises:
        LocalStackError: ZooKeeper or the controller does not start.
    """
    begun_s = time.monotonic()
    level = quorum.release_version or quorum.version
    default = {broker: {IBP: level, **each} for broker, each in settings.items()}
    copy, left_out = _small(as_it_is)
    planned: Planned | None = Planned(
        copy=copy,
        rest=_small(rest)[0],
        quorum=quorum,
        node_id=quorum.node_id if quorum.node_id is not None else free_controller_id(as_it_is),
        listener=quorum.listener or listener_names(next(iter(default.values())))[0],
        settings=default,
    )
    refusals: list[Refusal] = []
    topics: tuple[int, int] | None = None
    refused: Refusal | None = None
    storages: dict[int, Storage] = {}
    with ZooKeeperServer(workspace, name="brokers-zookeeper") as zookeeper:
        while planned is not None and len(refusals) < REFUSALS_MAX:
            storage = storages.get(planned.node_id) or _storage(planned, workspace)
            storages[planned.node_id] = storage
            start = _Start(planned, zookeeper, storage, f"start-{len(refusals) + 1}")
            refused = start.run()
            topics = start.topics or topics
            if refused is None:
                break
            then, planned = _corrected(planned, refused)
            refusals.append(replace(refused, then=then))
    return WithBrokers(
        brokers=tuple(sorted(settings)),
        reached=refused is None,
        refusals=tuple(refusals),
        topics=topics,
        left_out=left_out,
        total_s=time.monotonic() - begun_s,
    )


class _Start:
    """One start of controller and brokers below a chroot of its own."""

    def __init__(self, planned: Planned, zookeeper: ZooKeeperServer, storage: Storage, name: str) -> None:
        self._planned, self._zookeeper, self._storage, self._name = planned, zookeeper, storage, name
        self._workspace = zookeeper.workspace
        self._brokers: dict[int, MigratingBroker] = {}
        self._places: dict[int, Place] = {}
        self.topics: tuple[int, int] | None = None

    def run(self) -> Refusal | None:
        """None: every broker runs in KRaft mode."""
        planned, chroot = self._planned, f"{self._zookeeper.hosts}/{self._name}"
        if planned.node_id in planned.copy.tree.registered:
            return self._same_id()
        with connect(chroot, create_chroot=True) as session, ExitStack() as stack:
            write_tree(session.client, _znodes(planned))
            controller = stack.enter_context(_controller(planned, self._storage, chroot, self._name))
            imitated = ImitatedBrokers(
                sorted(planned.copy.tree.registered - planned.settings.keys()),
                cluster_id=planned.copy.cluster_id,
                controller_port=controller.port,
                with_directories=planned.quorum.version != "3.6",
                listener=planned.listener,
            )
            stack.enter_context(imitated)
            for broker, settings in planned.settings.items():
                place = self._place(broker, settings, controller.port)
                self._launch(stack, broker, Mode.MIGRATION, in_migration_mode(settings, place))
            refused = await_dual_write(controller, self._brokers)
            if refused is None or controller.migration_state == _SYNC:
                self.topics = self._topics()
            return refused or self._roll(stack, controller)

    def _same_id(self) -> Refusal:
        """What the broker says that has the controller's id. Migration mode does not look at that, and two nodes of one id confuse the quorum: it is started in KRaft mode at once."""
        broker = self._planned.node_id
        settings = self._planned.settings.get(broker) or next(iter(self._planned.settings.values()))
        kept = {key: value for key, value in settings.items() if key not in {AUTHORIZER, CONTROL_PLANE}}
        with ExitStack() as stack:
            started = self._launch(
                stack, broker, Mode.KRAFT, in_kraft_mode(kept, self._place(broker, kept, free_port()))
            )
            deadline_s = time.monotonic() + _STARTED_WITHIN_S
            while started.child.is_alive and time.monotonic() < deadline_s:
                time.sleep(_ROUND_S)
            return replace(_explained(Mode.KRAFT, broker, started.log_text), rule="R18")

    def _place(self, broker: int, settings: Mapping[str, str], controller_port: int) -> Place:
        place = Place(
            broker_id=broker,
            zookeeper_connect=f"{self._zookeeper.hosts}/{self._name}",
            voters=f"{self._planned.node_id}@{LOOPBACK}:{controller_port}",
            folder=Path(f"{self._name}-data"),
            ports={},
        )
        self._places[broker] = place = free_place(settings, place)
        return place

    def _launch(self, stack: ExitStack, broker: int, mode: Mode, settings: Mapping[str, str]) -> MigratingBroker:
        name = f"{self._name}-{mode.name.lower()}-{broker}"
        port = next(iter(self._places[broker].ports.values()))
        version = self._planned.quorum.version
        started = MigratingBroker(self._workspace, version=version, name=name, port=port, settings=settings)
        self._brokers[broker] = stack.enter_context(started)
        return started

    def _roll(self, stack: ExitStack, controller: KRaftController) -> Refusal | None:
        for broker, settings in self._planned.settings.items():
            self._brokers[broker].stop()
            wanted = {**in_kraft_mode(settings, self._places[broker]), **self._planned.in_kraft}
            kept = {key: value for key, value in wanted.items() if value is not None}
            started = self._launch(stack, broker, Mode.KRAFT, kept)
            deadline_s = time.monotonic() + _STARTED_WITHIN_S
            while broker not in controller.kraft_brokers:
                if not started.child.is_alive or time.monotonic() > deadline_s:
                    return _explained(Mode.KRAFT, broker, started.log_text)
                time.sleep(_ROUND_S)
        return None

    def _topics(self) -> tuple[int, int]:
        """How many topics a client sees, of those on the copy that are not queued for deletion."""
        from kafka.errors import KafkaError  # noqa: PLC0415 - only who asks brokers loads their client

        tree = self._planned.copy.tree
        wanted = {name for name in tree.children(TOPICS) if name not in tree.queued}
        broker = next(iter(self._planned.settings))
        port = next(iter(self._places[broker].ports.values()))
        seen: set[str] = set()
        deadline_s = time.monotonic() + _ASKED_WITHIN_S
        while time.monotonic() < deadline_s and not seen >= wanted:
            with (
                suppress(KafkaError, OSError, OperationError),
                admin_client("topics", BrokersAsked(f"{LOOPBACK}:{port}"), 5.0, OperationError) as admin,
            ):
                seen = wanted & {each["name"] for each in described_by(admin, broker)}
            time.sleep(_ROUND_S)
        return len(seen), len(wanted)


def await_dual_write(controller: KRaftController, brokers: Mapping[int, MigratingBroker]) -> Refusal | None:
    """None at dual write; a refusal as soon as a process ends, a broker is refused, or the migration stands still of itself."""
    seen, changed_s = "", time.monotonic()
    deadline_s = changed_s + _STARTED_WITHIN_S
    while time.monotonic() < deadline_s:
        state = controller.migration_state
        if state == DUAL_WRITE:
            return None
        for broker, each in brokers.items():
            refused = _REFUSED.search(each.log_text)
            if refused or not each.child.is_alive:
                return _explained(Mode.MIGRATION, broker, each.log_text)
        if not controller.child.is_alive:
            return Refusal(Mode.MIGRATION, None, most_telling(controller.log_text), None)
        if state != seen:
            seen, changed_s = state, time.monotonic()
        stuck = state == _SYNC or (state in _AFTER_REGISTRATION and complains(controller))
        if stuck and time.monotonic() - changed_s > _QUIET_S:
            break
        time.sleep(_ROUND_S)
    line = f"{controller.migration_state}: {most_telling(controller.log_text)}"
    return Refusal(Mode.MIGRATION, None, line, "R12" if _SYNC in line else None)


def _storage(planned: Planned, workspace: Workspace) -> Storage:
    return Storage(
        workspace,
        version=planned.quorum.version,
        node_id=planned.node_id,
        cluster_id=planned.copy.cluster_id,
        release_version=planned.quorum.release_version,
    )


def _controller(planned: Planned, storage: Storage, chroot: str, name: str) -> KRaftController:
    names = dict.fromkeys([planned.listener, PLAINTEXT, "CONTROLLER"])
    own = {
        "inter.broker.listener.name": planned.listener,
        "listener.security.protocol.map": ",".join(f"{each}:{PLAINTEXT}" for each in names),
        "broker.session.timeout.ms": "18000",
    }
    config = {**planned.quorum.settings, **own}
    return KRaftController(storage, zookeeper_connect=chroot, name=f"{name}-controller", config=config)


def _znodes(planned: Planned) -> list[NewZnode]:
    """The copy as ZooKeeper-mode brokers can live with it: they register themselves, and find a controller, so that none of them acts as one."""
    real = {f"/brokers/ids/{broker}" for broker in planned.settings}
    imitated = {
        "version": 5, "host": None, "port": -1, "jmx_port": -1, "timestamp": "1", "features": {},
        "endpoints": [f"{planned.listener}://{LOOPBACK}:1"], "listener_security_protocol_map": {planned.listener: PLAINTEXT},
    }  # fmt: skip
    somebody = {"version": 2, "brokerid": planned.node_id + 1, "timestamp": "1", "kraftControllerEpoch": -1}
    found = [
        NewZnode(each.path, json.dumps(imitated).encode() if each.path.startswith("/brokers/ids/") else each.data)
        for each in planned.copy.znodes
        if each.path not in real and each.path != "/controller"
    ]
    return sorted([*found, NewZnode("/controller", json.dumps(somebody).encode())])


def _small(copy: Copy) -> tuple[Copy, int]:
    """At most a hundred topics, for each real replica is a folder on disk, and nothing dynamic that names hosts or files; topics left out."""
    topics = [f"{TOPICS}/{name}" for name in copy.tree.children(TOPICS)]
    small = copy.only(topics[:TOPICS_MAX], topics)
    kept: dict[str, bytes | None] = {}
    for path in small.tree.below("/config/brokers"):
        try:
            config = decode_config(small.tree.data(path), path=path).config
        except MalformedZnodeError:
            continue
        settings = {key: value for key, value in config.items() if not _ELSEWHERE.match(key)}
        kept[path] = json.dumps({"version": 1, "config": settings}).encode()
    return small.with_data(kept), max(0, len(topics) - TOPICS_MAX)


_SAID: Final[Sequence[tuple[str, str]]] = (
    (r"log directories", "R20"),
    (r"Cannot enable ZooKeeper migration without setting|UNSUPPORTED_VERSION", "R2"),
    (r"broker\.id generation is incompatible", "R19"),
    (r"INVALID_REGISTRATION|INCONSISTENT_CLUSTER_ID", "R21"),
    (r"must not be included in the set of voters|same node id|must not contain the controller", "R18"),
    (r"control\.plane\.listener\.name", "R22"),
    (r"[Aa]uthorizer", "R15"),
    (r"NumberFormatException", "R12"),
)
"""What a broker says where it ends → the rule; more telling ones first."""


def _explained(mode: Mode, broker: int, log: str) -> Refusal:
    refused = _REFUSED.search(log)
    fatal = _FATAL.search(log)
    text = refused[0] if refused else fatal[1] if fatal else most_telling(log)
    rule = next((rule for pattern, rule in _SAID if re.search(pattern, text)), None)
    if rule is None:
        rule = next((rule for pattern, rule in _SAID if re.search(pattern, log)), None)
    return Refusal(mode, broker, text, rule)


def _corrected(planned: Planned, refused: Refusal) -> tuple[str, Planned | None]:
    """What is changed for the next start; no plan where nothing is known that helps."""
    correct = _CORRECTIONS.get(refused.rule or "")
    if correct is not None:
        return correct(planned)
    if planned.copy.tree != planned.rest.tree:
        return "the copy without the obstacles above", replace(planned, copy=planned.rest)
    return "", None


def _level(planned: Planned) -> tuple[str, Planned]:
    level = planned.quorum.release_version or planned.quorum.version
    return f"{IBP}={level}", planned.changed(lambda each: each.update({IBP: level}))


def _one_directory(planned: Planned) -> tuple[str, Planned]:
    return "one log directory", planned.changed(lambda each: each.update({"log.dirs": "one"}))


def _own_id(planned: Planned) -> tuple[str, Planned]:
    return "broker.id is set", planned.changed(lambda each: each.pop("broker.id", None))


def _other_node(planned: Planned) -> tuple[str, Planned]:
    node_id = free_controller_id(planned.copy.with_brokers(planned.settings))
    return f"node.id={node_id} of the controller", replace(planned, node_id=node_id)


def _listener(planned: Planned) -> tuple[str, Planned]:
    name = listener_names(next(iter(planned.settings.values())))[0]
    return f"inter.broker.listener.name={name} on the quorum", replace(planned, listener=name)


def _no_control_plane(planned: Planned) -> tuple[str, Planned]:
    return f"{CONTROL_PLANE} is removed", replace(planned, in_kraft={**planned.in_kraft, CONTROL_PLANE: None})


def _standard_authorizer(planned: Planned) -> tuple[str, Planned]:
    text = f"{AUTHORIZER}={STANDARD_AUTHORIZER} in KRaft mode"
    return text, replace(planned, in_kraft={**planned.in_kraft, AUTHORIZER: STANDARD_AUTHORIZER})


_CORRECTIONS: Final[Mapping[str, Callable[[Planned], tuple[str, Planned]]]] = {
    "R2": _level,
    "R15": _standard_authorizer,
    "R18": _other_node,
    "R19": _own_id,
    "R20": _one_directory,
    "R21": _listener,
    "R22": _no_control_plane,
}
"""Rule → what is changed on the copy or in the settings so that the next rule can speak."""
