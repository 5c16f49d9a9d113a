"""Sets the throttle of a step before it is asked for, and takes it back when the step is over.

It is recorded before it is set, so that whatever ends the run, a later one takes it back: of this plan or of another. It stays as
long as Kafka works at the step. Each write has the fence, the version of what it changes, and the notice that brokers wait for.
Source: Kafka 3.9 `AdminZkClient.changeConfigs`.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import BadVersionError, MalformedZnodeError, NodeExistsError, NoNodeError
from controller_core.plans.plan import PlanStep
from controller_core.plans.step_throttle import (
    Overrides,
    Throttled,
    overridden,
    rate_of_step,
    step_throttle,
    taken_back,
    to_set,
)
from controller_core.ports.zookeeper import ANY_VERSION, Check, Create, Operation, Set, ZooKeeper
from controller_core.znodes.configs import (
    ConfigChange,
    ConfigZnode,
    decode_config,
    encode_config,
    encode_config_change,
)
from controller_core.znodes.paths import CONFIG, CONFIG_CHANGE_PREFIX, CONFIG_CHANGES, topic_path
from kafka_maintenance.operations.apply.execution import end_execution
from kafka_maintenance.operations.apply.run import Run
from kafka_maintenance.operations.errors import LockLostError, RefusedError, listed
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, in_order, receipt_prefix

TRIES_MAX = 5
"""How often a write is tried whose znode somebody else changes meanwhile."""

log = logging.getLogger(__name__)


class _Found(NamedTuple):
    config: ConfigZnode
    version: int | None


def rate_of(run: Run, number: int, written_bytes_per_s: float) -> int | None:
    """The rate of the step, by the rule of the plan and by what the record says of the step before; None: no throttle.

    A step that was throttled already, by a run that ended, keeps its rate.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        written_bytes_per_s: what is written to the partitions that the busiest broker gets.
    """
    rule = run.plan.rules.throttle_bytes_per_s
    if rule is None:
        return None
    throttled = [(place, each) for place, each in enumerate(run.log.events) if each.event is EventKind.THROTTLED]
    if not throttled:
        return rate_of_step(rule, None, was_calm=True, written_bytes_per_s=written_bytes_per_s)
    place, last = throttled[-1]
    if last.step == number:
        return int(last.detail["bytes_per_s"])
    trouble = {EventKind.STUCK, EventKind.WAITING, EventKind.UNFINISHED}
    calm = not any(each.event in trouble and each.detail.get("awaits") != "window" for each in run.log.events[place:])
    return rate_of_step(rule, last.detail["bytes_per_s"], was_calm=calm, written_bytes_per_s=written_bytes_per_s)


def throttle(run: Run, number: int, step: PlanStep, rate_bytes_per_s: int | None) -> None:
    """Sets the throttle of the step; nothing where `rate_bytes_per_s` is None.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: what is left of it.
        rate_bytes_per_s: of `rate_of`, per broker.

    Raises:
        RefusedError: what would be overridden cannot be read; nothing was set, recorded.
        LockLostError: the next run takes back what was set.
    """
    wanted = {} if rate_bytes_per_s is None else step_throttle(step, rate_bytes_per_s)
    if not wanted:
        return
    try:
        found = {entity: _read(run.zookeeper, entity).config.config for entity in wanted}
    except MalformedZnodeError as error:
        run.log.append(EventKind.REFUSED, step=number, reasons=[str(error)])
        raise RefusedError(
            f"{run.name(number)}: not asked: its throttle was not set: {error}; repair that config (`kafka-maintenance restore --configs` brings "
            f"one back), or plan without a throttle; receipt {run.log.uri}"
        ) from error
    throttled = to_set(wanted, found)
    beside = sorted(set(wanted) - {each.entity for each in throttled})
    run.log.append(
        EventKind.THROTTLED,
        step=number,
        bytes_per_s=rate_bytes_per_s,
        overrides=[list(each) for each in throttled],
        left_alone=beside,
    )
    for entity in dict.fromkeys(each.entity for each in throttled):
        _change(run.zookeeper, run.fence, entity, partial(overridden, entity, throttled=throttled))
    log.info(
        "%s: throttled to %d bytes/s a broker, on %d topics and brokers",
        run.name(number),
        rate_bytes_per_s,
        len(wanted),
    )
    if beside:
        log.warning("%s: throttled replicas of somebody else are left as they are: %s", run.name(number), beside)


def end_throttle(zookeeper: ZooKeeper, fence: Check, record: ReceiptLog) -> None:
    """Takes back what the record says was set and not taken back; what somebody changed since is left as it is and named, and so is what cannot
    be read: whoever repairs it decides what stands there, and no other plan waits for that.

    Raises:
        LockLostError: another run may be at work; what is left is taken back by the next one.
    """
    throttled = _left(record)
    if not throttled:
        return
    entities = dict.fromkeys(each.entity for each in throttled)
    left_alone: list[str] = []
    changed: list[str] = []
    for entity in entities:
        try:
            now = _change(zookeeper, fence, entity, partial(taken_back, entity, throttled=throttled))
        except MalformedZnodeError as error:
            left_alone.append(entity)
            log.warning("throttle of plan %s not taken back, left as it is: %s", record.digest[:12], error)
            continue
        theirs = [e.key for e in throttled if e.entity == entity and now.get(e.key) not in {None, e.before}]
        if theirs:
            left_alone.append(entity)
            changed.append(f"{entity} ({', '.join(theirs)})")
    if changed:
        log.warning("throttle of plan %s: left as somebody else set it: %s", record.digest[:12], listed(changed))
    record.append(EventKind.UNTHROTTLED, overrides=len(throttled), left_alone=left_alone)
    count = len(entities) - len(left_alone)
    log.info("throttle of plan %s taken back from %d topics and brokers", record.digest[:12], count)


def end_step(run: Run) -> None:
    """Takes back what a step that is over left: its throttle and the execution znode.

    Raises:
        LockLostError: the next run does it.
    """
    end_throttle(run.zookeeper, run.fence, run.log)
    end_execution(run.zookeeper, run.fence, run.digest)


def left_over(store: ObjectStore, cluster: str) -> tuple[str, ...]:
    """Digests of the plans whose record says that a throttle was set and not taken back."""
    root = receipt_prefix(cluster, "").rstrip("/") + "/"
    last: dict[str, str] = {}
    for key in in_order(store.list(root)):
        digest, _, name = key.removeprefix(root).partition("/")
        event = name.removesuffix(".json").partition("-")[2]
        if event in {EventKind.THROTTLED, EventKind.UNTHROTTLED}:
            last[digest] = event
    return tuple(digest for digest, event in last.items() if event == EventKind.THROTTLED)


def _left(record: ReceiptLog) -> tuple[Throttled, ...]:
    """What the record says was set since the throttle was last taken back; of one set twice, what was there first counts."""
    left: dict[tuple[str, str], Throttled] = {}
    for each in record.events:
        if each.event is EventKind.UNTHROTTLED:
            left.clear()
        for row in each.detail.get("overrides", ()) if each.event is EventKind.THROTTLED else ():
            override = Throttled(*row)
            first = left.get((override.entity, override.key))
            left[override.entity, override.key] = override if first is None else override._replace(before=first.before)
    return tuple(left.values())


def _read(zookeeper: ZooKeeper, entity: str) -> _Found:
    path = f"{CONFIG}/{entity}"
    (found,) = zookeeper.get_many([path])
    return (
        _Found(ConfigZnode({}), None) if found is None else _Found(decode_config(found[0], path=path), found[1].version)
    )


def _change(zookeeper: ZooKeeper, fence: Check, entity: str, change: Callable[[Overrides], Overrides]) -> Overrides:
    """Writes the changed overrides and the notice in one transaction; again where somebody else wrote meanwhile. What stands there then."""
    path = f"{CONFIG}/{entity}"
    for _ in range(TRIES_MAX):
        found = _read(zookeeper, entity)
        config = change(found.config.config)
        if config == found.config.config:
            return config
        data = encode_config(ConfigZnode(config, found.config.extra))
        write: Operation = (
            Create(path=path, data=data) if found.version is None else Set(path=path, data=data, version=found.version)
        )
        notice = Create(
            path=f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}",
            data=encode_config_change(ConfigChange(entity)),
            sequential=True,
        )
        owner = () if found.version is not None else _owner(entity)
        operations = [fence, *owner, *_missing_parents(zookeeper, path), write, notice]
        try:
            zookeeper.multi(operations)
        except (BadVersionError, NodeExistsError, NoNodeError) as error:
            failed = operations[error.failed_operation or 0]
            if failed in owner:
                return {}  # the topic is gone, and so is what was to be throttled
            if failed == fence:
                raise LockLostError(
                    f"{path} not changed: the session and with it the lock was lost ({error}); run again"
                ) from None
        else:
            return config
    raise LockLostError(f"{path} not changed: somebody else changed it {TRIES_MAX} times meanwhile; run again")


def _owner(entity: str) -> Sequence[Operation]:
    """The check that a topic is there whose config is to be created: one that was deleted meanwhile gets none, and leaves none to a namesake."""
    kind, _, name = entity.partition("/")
    return [Check(path=topic_path(name), version=ANY_VERSION)] if kind == "topics" else []


def _missing_parents(zookeeper: ZooKeeper, path: str) -> Sequence[Operation]:
    """Creations of the parents that are missing of the config and of its notice, as Kafka's `KafkaZkClient` makes them."""
    parents = (path.rpartition("/")[0], CONFIG_CHANGES)
    return [Create(path=parent) for parent in parents if zookeeper.exists(parent) is None]
