"""Changes of znodes as events of the controller: which watches it has, and when they are set again.

ZooKeeper's watches fire once. Since Kafka 1.1 one is set again by the next read of its path, so what somebody else does
to a request znode can leave the controller deaf (docs/zookeeper.md, "Kafka's operations"); before, a client subscribed again by itself.
Source: Kafka 3.9 `ZooKeeperClient`, `KafkaController` (handlers).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.model.errors import NoNodeError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.ports.zookeeper import Watcher, WatchEvent, WatchEventKind, ZooKeeper
from controller_core.znodes import (
    BROKER_IDS,
    CONTROLLER,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    broker_path,
    state_path,
    topic_path,
)

_K = e.WatchKind
_PARENTS = {
    _K.BROKERS: BROKER_IDS,
    _K.TOPICS: TOPICS,
    _K.DELETIONS: DELETE_TOPICS,
    _K.ISR_NOTIFICATIONS: ISR_CHANGE_NOTIFICATION,
    _K.LOG_DIR_EVENTS: LOG_DIR_EVENT_NOTIFICATION,
}
_REQUESTS = {_K.REASSIGNMENT: REASSIGN_PARTITIONS, _K.PREFERRED_ELECTION: PREFERRED_REPLICA_ELECTION}
_CREATED: dict[e.WatchKind, events.Event] = {
    _K.REASSIGNMENT: events.ReassignmentRequested(),
    _K.PREFERRED_ELECTION: events.PreferredElectionRequested(),
}
Key = tuple[e.WatchKind, str]


class ControllerWatches:
    """The watches of one controller on one session; `hear` gets the events.

    `subscribes_again` (Kafka up to 1.0): a watch that fired is set again at once, and changed requests count as new ones.
    """

    def __init__(
        self, zookeeper: ZooKeeper, hear: Callable[[events.Event], None], *, subscribes_again: bool = False
    ) -> None:
        self._zookeeper = zookeeper
        self._hear = hear
        self._subscribes_again = subscribes_again
        self._callbacks: dict[Key, Watcher] = {}
        self._wanted: set[Key] = set()
        self._controller_watch: Watcher = self._controller_changed

    def watch(self, effect: e.Watch) -> None:
        """Hear of changes from now on."""
        for key in _keys(effect.kind, effect.names):
            self._wanted.add(key)
            self._set(key)

    def unwatch(self, effect: e.Unwatch) -> None:
        """Hear of changes no longer; without names: of none of that kind."""
        gone = (
            set(_keys(effect.kind, effect.names)) if effect.names else {k for k in self._wanted if k[0] is effect.kind}
        )
        self._wanted -= gone

    def before_listing(self, kind: e.WatchKind) -> None:
        """Watch a directory or a request znode that is about to be read."""
        self._wanted.add((kind, ""))
        self._set((kind, ""))

    def after_deleting(self, kind: e.WatchKind) -> None:
        """Watch for the next request; one that was created since the last was deleted is heard of at once."""
        key = (kind, "")
        self._wanted.add(key)
        if self._set(key):
            self._hear(_CREATED[kind])

    def before_reading(self, kind: e.WatchKind, names: Iterable[str] | None = None) -> None:
        """Set the watches on data that are wanted and that the coming read sets again; None: all of that kind."""
        if names is None:
            names = [name for wanted, name in self._wanted if wanted is kind]
        for name in sorted(names):
            if (kind, name) in self._wanted:
                self._set((kind, name))

    def before_controller(self) -> None:
        """Watch `/controller`, which is about to be read."""
        self._zookeeper.exists(CONTROLLER, watch=self._controller_watch)

    def _set(self, key: Key) -> bool:
        """Sets the watch; whether what it watches is there."""
        callback = self._callbacks.setdefault(key, lambda event: self._fired(key, event))
        path = _path(key)
        if key[0] in _PARENTS:
            with suppress(NoNodeError):  # then hear of its birth
                self._zookeeper.children(path, watch=callback)
                return True
        return self._zookeeper.exists(path, watch=callback) is not None

    def _fired(self, key: Key, event: WatchEvent) -> None:
        if event.kind is WatchEventKind.LOST or key not in self._wanted:
            return
        if self._subscribes_again or (key[0] in _PARENTS and event.kind is WatchEventKind.CREATED):
            self._set(key)
        command = self._event(key, event)
        if command is not None:
            self._hear(command)

    def _event(self, key: Key, event: WatchEvent) -> events.Event | None:
        kind, name = key
        changed = event.kind is WatchEventKind.CHANGED
        requested = event.kind is WatchEventKind.CREATED or (changed and self._subscribes_again)
        match kind:
            case _K.BROKERS:
                return events.BrokersChanged()
            case _K.TOPICS:
                return events.TopicsChanged()
            case _K.DELETIONS:
                return events.DeletionsChanged()
            case _K.ISR_NOTIFICATIONS:
                return events.IsrNotificationsChanged(
                    self._names(ISR_CHANGE_NOTIFICATION) if self._subscribes_again else ()
                )
            case _K.LOG_DIR_EVENTS:
                return events.LogDirEventsChanged()
            case _K.REASSIGNMENT | _K.PREFERRED_ELECTION:
                return _CREATED[kind] if requested else None
            case _K.BROKER:
                return events.BrokerDataChanged(BrokerId(int(name))) if changed else None
            case _K.TOPIC:
                return events.TopicDataChanged(name) if changed else None
            case _K.PARTITION_STATE:
                return events.PartitionStateChanged(_partition(name)) if changed else None

    def _controller_changed(self, event: WatchEvent) -> None:
        if event.kind is WatchEventKind.LOST:
            return
        stat = self._zookeeper.exists(CONTROLLER, watch=self._controller_watch)
        # gone since: no other event follows; Kafka's own controller would leave the election to the other brokers
        gone = stat is None or event.kind is WatchEventKind.DELETED
        self._hear(events.ControllerVanished() if gone else events.ControllerChanged())

    def _names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(self._zookeeper.children(path))
        except NoNodeError:
            return ()


def _keys(kind: e.WatchKind, names: Iterable[str]) -> list[Key]:
    is_single = kind in _PARENTS or kind in _REQUESTS
    return [(kind, "")] if is_single else [(kind, name) for name in names]


def _path(key: Key) -> str:
    kind, name = key
    if kind in _PARENTS:
        return _PARENTS[kind]
    if kind in _REQUESTS:
        return _REQUESTS[kind]
    if kind is _K.BROKER:
        return broker_path(int(name))
    return topic_path(name) if kind is _K.TOPIC else state_path(_partition(name))


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
