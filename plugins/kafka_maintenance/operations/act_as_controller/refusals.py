"""Why we do not become the active controller: looked at right before, whatever the plan says.

Source: docs/adr/0013; docs/operations.md, "A few seconds as active controller".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller_core.model.partitions import BrokerId
from controller_core.model.words import first_names
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import ZooKeeperControllerRules
from controller_core.plans.kinds.leaders import LEADERS_PER_RUN, isr_needs_controller
from controller_core.plans.observation import Observation
from controller_core.wire.messages import LEADER_AND_ISR, UPDATE_METADATA

CONTROLLER_AGE_MIN_MS: Final = 60_000
"""A cluster whose controller changed within a minute is unstable, or has a failover behind it that we caused."""
CONTROLLER_ID: Final = BrokerId(2_000_000_001)
"""As whom we hold `/controller`: no broker's id. A live broker's id would make that broker believe to be active."""
_FETCH_KEY: Final = 1
_FETCH_SINCE_2_1: Final = 10
_UPDATE_METADATA_SINCE_1_0: Final = 4
_SHOWN_MAX: Final = 10
Versions = Mapping[int, tuple[int, int]]
"""Api key → oldest and newest version that a broker knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What was found before anything was written.

    Attributes:
        observed: the whole cluster.
        controller_age_ms: since when `/controller` stands, by ZooKeeper's clock; None: nobody holds it.
        versions: broker → the versions that it knows; of those that let us connect.
        rights: broker → Kafka's name of its answer to a request that changes nothing; STALE_CONTROLLER_EPOCH means obeyed.
        move_count: leaders that the plan moves.
    """

    observed: Observation
    controller_age_ms: int | None
    versions: Mapping[BrokerId, Versions]
    rights: Mapping[BrokerId, str]
    move_count: int


def refusals(found: Prepared, *, confirmed_unfenced: bool) -> tuple[Unmet, ...]:
    """Every reason against it; empty where there is none.

    Args:
        found: before anything was written.
        confirmed_unfenced: the second confirmation, for brokers of Kafka 2.0 or older.
    """
    return (
        *unmet((ZooKeeperControllerRules(),), found.observed),
        *_stability(found),
        *_health(found.observed),
        *_requests(found.observed),
        *_brokers(found, confirmed_unfenced=confirmed_unfenced),
    )


def is_fenced(versions: Mapping[BrokerId, Versions]) -> bool:
    """Whether every broker is of Kafka 2.1 or newer: a former controller's late writes fail there."""
    return all(known.get(_FETCH_KEY, (0, 0))[1] >= _FETCH_SINCE_2_1 for known in versions.values())


def _stability(found: Prepared) -> Iterator[Unmet]:
    age_ms = found.controller_age_ms
    if age_ms is not None and age_ms < CONTROLLER_AGE_MIN_MS:
        advice = (
            "the cluster is unstable, or had a run like this one just now: wait a minute, look at the brokers' logs"
        )
        yield Unmet("/controller", "one that is at least a minute old", f"{age_ms / 1000:.0f} s old", advice)
    if CONTROLLER_ID in found.observed.brokers:
        yield Unmet("/brokers/ids", f"no broker {CONTROLLER_ID}", "one", "its id is the one that we act under")
    if found.move_count > LEADERS_PER_RUN:
        advice = "plan again: what is over the limit waits for another run"
        yield Unmet("the plan", f"at most {LEADERS_PER_RUN} leaders", str(found.move_count), advice)


def _health(observed: Observation) -> Iterator[Unmet]:
    assigned = {broker for assignment in observed.assignments.values() for broker in assignment.replicas}
    missing = sorted(assigned - observed.brokers.keys())
    if missing:
        advice = "nobody would elect leaders while we are active: start them first"
        yield Unmet("/brokers/ids", "every broker that has replicas", f"no broker {_shown(missing)}", advice)
    leaderless = sorted(
        partition
        for partition in observed.assignments
        if (state := observed.states.get(partition)) is None or state.leader not in observed.brokers
    )
    if leaderless:
        advice = "the cluster needs its own controller: bring back what is missing first"
        yield Unmet("partitions", "a live leader for each", f"none for {_shown(leaderless)}", advice)
    if isr_needs_controller(observed):
        behind = sorted(
            partition
            for partition, state in observed.states.items()
            if partition in observed.assignments
            and frozenset(observed.assignments[partition].replicas) - frozenset(state.isr)
        )
        if behind:
            advice = "ISRs change through the controller here, and would be frozen: wait until all followers caught up"
            yield Unmet("partitions", "every replica in the ISR", f"some outside of {_shown(behind)}", advice)
    for path, what in sorted(observed.unreadable.items()):
        yield Unmet(path, "a znode that can be read", what, "have it repaired first")


def _requests(observed: Observation) -> Iterator[Unmet]:
    advice = "the controller works at it: let it finish"
    yield from (Unmet(path, "no znode", text, advice) for path, text in observed.pending.items())
    if observed.queued_topics:
        yield Unmet("/admin/delete_topics", "no child", _shown(sorted(observed.queued_topics)), advice)
    moving = sorted(each for each, lists in observed.assignments.items() if lists.is_being_reassigned)
    if moving:
        yield Unmet("partitions", "none that is being reassigned", _shown(moving), advice)


def _brokers(found: Prepared, *, confirmed_unfenced: bool) -> Iterator[Unmet]:
    for broker in sorted(found.observed.brokers):
        answer = found.rights.get(broker, "no answer")
        if answer != "STALE_CONTROLLER_EPOCH":
            advice = (
                "it does not obey us: act as a principal with ClusterAction on the cluster, on the listener that brokers use "
                "among themselves"
            )
            yield Unmet(f"broker {broker}", "STALE_CONTROLLER_EPOCH to a request that changes nothing", answer, advice)
    for broker, known in sorted(found.versions.items()):
        if known.get(UPDATE_METADATA.api_key, (0, -1))[1] < _UPDATE_METADATA_SINCE_1_0:
            told = (
                f"UpdateMetadata {known.get(UPDATE_METADATA.api_key)}, LeaderAndIsr {known.get(LEADER_AND_ISR.api_key)}"
            )
            advice = "such a controller was never tried: Kafka 1.0 is the oldest, and Kafka 4 has none"
            yield Unmet(f"broker {broker}", "Kafka 1.0 to 3.9 in ZooKeeper mode", told, advice)
    if not is_fenced(found.versions) and not confirmed_unfenced:
        advice = "its writes after our beginning succeed, and the next controller heals them: confirm a second time, or elect by reassignment"
        yield Unmet("brokers", "Kafka 2.1 or newer, whose former controller is fenced", "an older one", advice)


def _shown(values: Sequence[object]) -> str:
    return first_names(values, _SHOWN_MAX)
