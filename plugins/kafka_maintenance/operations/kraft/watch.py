"""The day of a migration: from what a cluster's tree shows now and showed before, whether to go on, to wait, or to go back.

It writes nothing at any time. Source: docs/kraft.md, "Watch" and "Phases"; KAFKA-20960 for the registrations that Kafka does not check.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, assert_never

from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.words import counted, first_lines
from controller_core.znodes import TOPICS
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.asked import NoBrokerAnsweredError
from kafka_maintenance.operations.kraft.brokers_say import Topic, contradictions, cut_off
from kafka_maintenance.operations.kraft.drift import LogSays, disagreements, lost
from kafka_maintenance.servers.errors import LocalStackError
from spark_jobs.kraft.phase import Phase, PhaseId, phase_of
from spark_jobs.kraft.topics import under_way
from spark_jobs.kraft.tree import REQUESTS, Tree, Znode

CLAIM_LASTS_AT_MOST: Final = timedelta(seconds=60)
RISES_WITHIN: Final = timedelta(seconds=5)
"""An active controller writes `/migration` twice a second, even idle."""
_BOTH_LIVE: Final = frozenset({PhaseId.HYBRID, PhaseId.PARTLY_KRAFT, PhaseId.ALL_KRAFT})
_SHOWN_MAX: Final = 10

Ask = Callable[[], Mapping[str, Topic]]
ReadLog = Callable[[], LogSays]


class Advice(Enum):
    """What to do now."""

    GO = "go"
    WAIT = "wait"
    GO_BACK = "go back"


@dataclass(frozen=True, slots=True)
class Seen:
    """A tree, and when it was read."""

    tree: Tree
    at: datetime

    @property
    def migration_version(self) -> int | None:
        """Version of `/migration`; None where there is none."""
        znode = self.tree.znodes.get("/migration")
        return None if znode is None else znode.version


@dataclass(frozen=True, slots=True)
class Judgement:
    """`next_step` is what GO means; `reasons` are why not, or what to know. `again`: one more look tells whether a difference lasts."""

    phase: Phase
    advice: Advice
    next_step: str
    reasons: tuple[str, ...]
    again: bool = False


def judge(
    before: Seen,
    now: Seen,
    registrations: Mapping[int, bool] | None = None,
    phase_since: datetime | None = None,
) -> Judgement:
    """What to do, from two looks at the same cluster.

    Args:
        before: the earlier look; five seconds or more, or an end of the quorum cannot be told.
        now: the later one.
        registrations: broker → whether the quorum has it registered as a ZooKeeper broker; None: not known.
        phase_since: when the phase of `now` was first seen; None: in `before`, if it shows the same one.
    """
    phase = phase_of(now.tree)
    match phase.id:
        case PhaseId.ZOOKEEPER:
            waits = [*under_way(now.tree).evidence, *_out_of_sync(now.tree)]
            step = "start the quorum, if certificate and rehearsal are passed"
            return _go_unless(waits, phase, step)
        case PhaseId.QUORUM_STARTED:
            waits = [*under_way(now.tree).evidence, *_unregistered(now.tree), *_out_of_sync(now.tree)]
            step = "roll the next broker into migration mode; the copy begins with the last one"
            return _go_unless(waits, phase, step)
        case PhaseId.CLAIMED:
            return _claimed(before, now, phase, phase_since)
        case PhaseId.HYBRID | PhaseId.PARTLY_KRAFT | PhaseId.ALL_KRAFT:
            return _with_kraft_controller(before, now, phase, registrations)
        case PhaseId.LEFT_OVER:
            return Judgement(
                phase, Advice.GO_BACK, "finish the way back before any quorum is started", (phase.text, phase.advice)
            )
        case _:
            assert_never(phase.id)


def _claimed(before: Seen, now: Seen, phase: Phase, phase_since: datetime | None) -> Judgement:
    step = "stop the quorum; at once delete /controller and /migration; roll the brokers back"
    since = phase_since or (before.at if phase_of(before.tree).id is PhaseId.CLAIMED else now.at)
    lasts = now.at - since
    if lasts >= CLAIM_LASTS_AT_MOST:
        return Judgement(
            phase,
            Advice.GO_BACK,
            step,
            (f"offset -1 for {lasts.total_seconds():.0f} s: the copy died, there is no working controller",),
        )
    return Judgement(phase, Advice.WAIT, "look again within a minute", ("the copy runs, or has died",))


def _with_kraft_controller(
    before: Seen, now: Seen, phase: Phase, registrations: Mapping[int, bool] | None
) -> Judgement:
    looked = now.at - before.at
    rises = before.migration_version is None or before.migration_version != now.migration_version
    if not rises and looked >= RISES_WITHIN:
        reasons = [
            f"the version of /migration stands still at {now.migration_version} for {looked.total_seconds():.0f} s: no controller writes it"
        ]
        if phase.id is PhaseId.ALL_KRAFT:
            reasons.append(
                "where the quorum was finalised this is its end: there is no way back, and ZooKeeper is no longer true"
            )
            return Judgement(phase, Advice.WAIT, "look at the quorum: finalised, or down", tuple(reasons))
        return Judgement(
            phase, Advice.GO_BACK, "look at the quorum; unless it comes back at once, go back", tuple(reasons)
        )
    waits = [] if rises else ["looked for too short a time to see whether /migration rises"]
    waits += [
        f"{each}: written by somebody else, for KRaft never does; the next full synchronisation deletes it"
        for each in _foreign(now.tree)
    ]
    waits += _out_of_sync(now.tree)
    if phase.id is PhaseId.ALL_KRAFT:
        return _go_unless(
            [*waits, *_registered_as_zookeeper(now.tree, registrations)],
            phase,
            "finalise, when you want no way back any more",
        )
    return _go_unless(waits, phase, "roll the next broker to KRaft mode")


def _registered_as_zookeeper(tree: Tree, registrations: Mapping[int, bool] | None) -> Iterator[str]:
    """Why finalising is refused: Kafka itself does not check."""
    if registrations is None:
        yield "whether a registration still says ZooKeeper is not known: name a copy of the quorum's metadata log"
        return
    still = sorted(broker for broker, migrating in registrations.items() if migrating)
    if still:
        yield f"the quorum has brokers {still} registered as ZooKeeper brokers"
    missing = sorted(set(tree.replica_brokers) - registrations.keys())
    if missing:
        yield f"the quorum has no registration of brokers {missing}, which hold replicas"


def _go_unless(reasons: Iterable[str], phase: Phase, step: str) -> Judgement:
    waits = tuple(reasons)
    return Judgement(phase, Advice.WAIT if waits else Advice.GO, step, first_lines(waits, _SHOWN_MAX))


def _unregistered(tree: Tree) -> list[str]:
    missing = sorted(set(tree.replica_brokers) - tree.registered)
    return [f"brokers {missing} are not registered: wait until they are back"] if missing else []


def _foreign(tree: Tree) -> Iterator[str]:
    yield from (path for path in REQUESTS if path in tree)
    yield from (f"/admin/delete_topics/{name}" for name in sorted(tree.queued))
    yield from (
        f"{TOPICS}/{name}"
        for name, topic in tree.topics.items()
        if not isinstance(topic, str) and topic.assignments and not tree.children(f"{TOPICS}/{name}/partitions")
    )
    yield from (f"/config/topics/{name}" for name in tree.children("/config/topics") if f"{TOPICS}/{name}" not in tree)


def _out_of_sync(tree: Tree) -> Iterator[str]:
    """Partitions that lack a replica in the ISR."""
    for name, topic in tree.topics.items():
        for number, assignment in () if isinstance(topic, str) else sorted(topic.assignments.items()):
            state = tree.state(name, number)
            if state is not None and (lacking := sorted(set(assignment.replicas) - set(state.isr))):
                yield f"{name}-{number}: replicas {lacking} are not in sync"


def settled(judgements: Iterator[Judgement]) -> Judgement:
    """The first judgement that more looks within a minute do not change: while a copy runs, the one after it has ended or died."""
    return next(
        each
        for each in judgements
        if each.advice is not Advice.WAIT or not (each.again or each.phase.id is PhaseId.CLAIMED)
    )


def look(address: ClusterAddress, at: datetime) -> Seen:
    """Reads a cluster's tree; of a cluster in any phase, for it writes and stores nothing. Errors: those of ZooKeeper."""
    with address.session() as session:
        cut = read_cut(session.client, ReadOptions(acls=False))
    znodes = {
        path: Znode(each.data, each.decoded_stat.version, bool(each.decoded_stat.ephemeral_owner))
        for path, each in cut.znodes.items()
    }
    return Seen(Tree(znodes), at)


def judgement_text(judgement: Judgement) -> str:
    """For people: the advice first."""
    lines = [
        f"{judgement.advice.value.upper()}: {judgement.next_step}",
        f"phase {judgement.phase.id.value}: {judgement.phase.text}",
        *(f"  {reason}" for reason in judgement.reasons),
    ]
    return "\n".join(lines)


def judgement_json(judgement: Judgement) -> dict[str, Any]:
    """The same as a document."""
    return {
        "advice": judgement.advice.value,
        "next_step": judgement.next_step,
        "phase": judgement.phase.id.value,
        "text": judgement.phase.text,
        "reasons": list(judgement.reasons),
    }


class Watcher:
    """Judges each look by the one before it, and knows since when the phase lasts.

    Args:
        first: the first look.
        log: what the metadata log says at each look; None: not known.
        since: the tree of an earlier snapshot, of which nothing may be lost; None: that is not looked at.
        ask: what brokers tell their clients; None: nobody is asked.
    """

    def __init__(
        self, first: Seen, log: ReadLog | None = None, since: Tree | None = None, ask: Ask | None = None
    ) -> None:
        self._before, self._phase_since = first, first.at
        self._log, self._since, self._ask = log, since, ask
        self._contradicted: frozenset[str] = frozenset()

    def judged(self, now: Seen) -> Judgement:
        """What the next look says; five seconds or more after the one before."""
        if phase_of(now.tree).id is not phase_of(self._before.tree).id:
            self._phase_since = now.at
        log, unread = self._log_now()
        doubts = [*(lost(self._since, now.tree) if self._since else ()), *unread, *_differing(now.tree, log)]
        registrations = log.registrations if log else None
        found = _with_doubts(judge(self._before, now, registrations, self._phase_since), doubts)
        self._before = now
        return self._heard(found, now.tree)

    def _log_now(self) -> tuple[LogSays | None, list[str]]:
        """What the metadata log says, or why it cannot be read: who renews a copy takes a while."""
        try:
            return (None if self._log is None else self._log()), []
        except (OSError, BadInputError, LocalStackError) as error:
            return None, [f"what the metadata log says is not known: {error}"]

    def _heard(self, found: Judgement, tree: Tree) -> Judgement:
        """With what brokers say. They and the tree may each be late, so that only what two looks show counts; no topics at all is an outage."""
        if self._ask is None or found.phase.id not in _BOTH_LIVE:
            return found
        try:
            told = self._ask()
        except NoBrokerAnsweredError as error:
            return _with_doubts(found, [str(error)])
        gone = cut_off(tree, told)
        now = frozenset([gone] if gone else contradictions(tree, told))
        before, self._contradicted = self._contradicted, now
        if not now:
            return found
        if not before:
            text = gone or f"{counted(len(now), 'difference')} between brokers and ZooKeeper, {min(now)} for one"
            return replace(_with_doubts(found, [f"{text}; seen once"]), again=True)
        if gone in before:
            step = "look at the quorum; unless it serves topics at once, go back"
            return replace(found, advice=Advice.GO_BACK, next_step=step, reasons=(*found.reasons, gone))
        return _with_doubts(found, sorted(now & before))


def watch(
    look_again: Callable[[], Seen],
    pause: Callable[[], None],
    log: ReadLog | None = None,
    since: Tree | None = None,
    ask: Ask | None = None,
) -> Iterator[Judgement]:
    """A judgement after each pause, without end: who asks for it stops when he wants to.

    Args:
        look_again: reads the cluster.
        pause: waits; five seconds or more.
        log: what the metadata log says at each look; it is compared with the tree while both live. None: not known.
        since: the tree of an earlier snapshot, of which nothing may be lost; None: that is not looked at.
        ask: what brokers tell their clients; it is compared with the tree while both live. None: nobody is asked.
    """
    watcher = Watcher(look_again(), log, since, ask)
    while True:
        pause()
        yield watcher.judged(look_again())


def _differing(tree: Tree, log: LogSays | None) -> Iterator[str]:
    """While ZooKeeper and the metadata log both live they have to say the same."""
    both = phase_of(tree).id in _BOTH_LIVE
    return disagreements(tree, log.replicas) if both and log and log.replicas is not None else iter(())


def _with_doubts(judgement: Judgement, doubts: list[str]) -> Judgement:
    """What is lost or differs is a reason to wait; where the way is back already it is named beside the others."""
    if not doubts:
        return judgement
    advice = Advice.WAIT if judgement.advice is Advice.GO else judgement.advice
    return replace(judgement, advice=advice, reasons=(*judgement.reasons, *first_lines(doubts, _SHOWN_MAX)))
