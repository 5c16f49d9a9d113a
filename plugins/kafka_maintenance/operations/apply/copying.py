"""What a step copies, in bytes, where brokers may be asked: room for it before it is asked for, how far it is, how long it may take.

Brokers that do not say stop nothing: without them there are no bytes, and the log says so.
Source: docs/operations.md, "Bytes, room and time"; Kafka 3.9 `ReplicaManager.describeLogDirs`.
"""

import logging
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final, NamedTuple

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.checks import Unmet
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep
from controller_core.plans.progress import copies, copy_seconds
from kafka_maintenance.operations.apply.run import Run
from kafka_maintenance.operations.cluster.log_dirs import LogDirs, SizesUnknownError, largest, log_dirs_of
from kafka_maintenance.operations.errors import BadInputError

ROOM: Final = 1.1
"""So many times the bytes that a broker gets must be free on it: its partitions grow meanwhile."""
SAMPLE_S: Final = 3.0
"""How long is measured what is written."""
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
_STEP: Final = 1000

log = logging.getLogger(__name__)


class Copied(NamedTuple):
    """A replica that is copied: bytes that are there, of the bytes of the largest replica of the partition."""

    partition: TopicPartition
    broker: BrokerId
    copied: int
    total: int

    @property
    def lacks(self) -> int:
        """Bytes that are not there yet."""
        return self.total - self.copied


class Measured(NamedTuple):
    """Log directories of the brokers of a step, None where they are not known, and bytes per second that are written to what each gets."""

    log_dirs: tuple[LogDirs, ...] | None
    written: Mapping[BrokerId, float]


NOTHING_MEASURED: Final = Measured(None, {})


class Copying(NamedTuple):
    """The replicas that a step copies."""

    replicas: tuple[Copied, ...]

    @property
    def copied(self) -> int:
        """Bytes that are there."""
        return sum(each.copied for each in self.replicas)

    @property
    def total(self) -> int:
        """Bytes that are to be there at the end."""
        return sum(each.total for each in self.replicas)

    @property
    def farthest(self) -> Copied | None:
        """The replica that lacks most; None where none lacks any."""
        return max((each for each in self.replicas if each.lacks), key=lambda each: each.lacks, default=None)


def log_dirs_of_step(run: Run, number: int, step: PlanStep, observed: Observation) -> tuple[LogDirs, ...] | None:
    """The log directories of the brokers that copy; None where nobody may be asked, nothing is copied or somebody does not say.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: as it was or is to be asked for.
        observed: who leads now.
    """
    copied = copies(step)
    if run.brokers is None or not copied:
        return None
    leaders = {observed.states[each.partition].leader for each in copied if each.partition in observed.states}
    only = {each.broker for each in copied} | leaders & observed.brokers.keys()
    try:
        return log_dirs_of(
            run.brokers, f"{run.name(number)}: log directories asked of {run.brokers.bootstrap_servers}", only=only
        )
    except (SizesUnknownError, BadInputError) as error:
        log.warning("bytes are not known: %s", error)
        return None


def copying(step: PlanStep, found: Sequence[LogDirs]) -> Copying:
    """How far the copies of the step are, by the log directories of its brokers."""
    sizes, held = largest(found), {each.broker: each.sizes for each in found}
    return Copying(
        tuple(
            Copied(
                *each,
                min(held.get(each.broker, {}).get(each.partition, 0), sizes.get(each.partition, 0)),
                sizes.get(each.partition, 0),
            )
            for each in copies(step)
        )
    )


def no_room(step: PlanStep, found: Sequence[LogDirs]) -> tuple[Unmet, ...]:
    """The brokers that tell their room (Kafka 3.3) and have too little for what the step still copies to them."""
    sizes = largest(found)
    reasons = []
    for each in found:
        lacking = [
            sizes.get(copy.partition, 0) - each.sizes.get(copy.partition, 0)
            for copy in copies(step)
            if copy.broker == each.broker
        ]
        if each.usable_bytes is None or not lacking:
            continue
        room, largest_room = sum(each.usable_bytes), max(each.usable_bytes)
        if sum(lacking) * ROOM > room or max(lacking) * ROOM > largest_room:
            free = f"{in_bytes(room)} free" + (
                "" if room == largest_room else f", {in_bytes(largest_room)} in one directory"
            )
            wanted = f"room for {in_bytes(sum(lacking))} and a tenth more, the largest replica of {in_bytes(max(lacking))} in one directory"
            reasons.append(
                Unmet(
                    f"log directories of broker {each.broker}", wanted, free, "free space there, or plan other targets"
                )
            )
    return tuple(reasons)


def in_bytes(count: float) -> str:
    """As a person reads it: `1.2 TB`."""
    for unit in _UNITS[:-1]:
        if abs(count) < _STEP:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= _STEP
    return f"{count:.1f} {_UNITS[-1]}"


def estimate_details(
    step: PlanStep, observed: Observation, found: Sequence[LogDirs] | None, rate_bytes_per_s: int | None
) -> Mapping[str, object]:
    """What the record keeps with the intention: bytes that are copied, and, under a throttle, the seconds that they take.

    Args:
        step: as it is asked for.
        observed: what it was checked on.
        found: log directories of its brokers; None: not known.
        rate_bytes_per_s: per broker; None: no throttle.
    """
    if found is None:
        return {}
    total = copying(step, found).total
    return (
        {"bytes": total}
        if rate_bytes_per_s is None
        else {
            "bytes": total,
            "estimate_s": round(copy_seconds(step, observed.leaders, largest(found), rate_bytes_per_s)),
        }
    )


def measure(run: Run, number: int, step: PlanStep, observed: Observation) -> Measured:
    """What the step copies and, under a throttle, what is written meanwhile, measured for some seconds.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: as it is to be asked for.
        observed: who leads now.
    """
    since_s, found = monotonic(), log_dirs_of_step(run, number, step, observed)
    if found is None or run.plan.rules.throttle_bytes_per_s is None:
        return Measured(found, {})
    run.stop.wait(SAMPLE_S)
    later = log_dirs_of_step(run, number, step, observed)
    if later is None:
        return Measured(found, {})
    passed_s, before, sizes = max(monotonic() - since_s, 1e-3), largest(found), largest(later)
    written: dict[BrokerId, float] = {}
    for each in copies(step):
        grown = max(0, sizes.get(each.partition, 0) - before.get(each.partition, 0))  # retention takes away, too
        written[each.broker] = written.get(each.broker, 0.0) + grown / passed_s
    return Measured(later, written)


def too_slow(written: Mapping[BrokerId, float], bytes_per_s: int) -> tuple[Unmet, ...]:
    """The brokers that would never catch up at that rate."""
    return tuple(
        Unmet(
            f"throttle of broker {broker}",
            f"more than {in_bytes(rate)}/s, which are written to the partitions that it gets",
            f"{in_bytes(bytes_per_s)}/s",
            "no replica would catch up: plan with a higher throttle, or when less is written",
        )
        for broker, rate in sorted(written.items())
        if rate >= bytes_per_s
    )
