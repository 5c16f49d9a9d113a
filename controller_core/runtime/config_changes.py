"""Configs that change while a controller runs: unclean election that is switched on elects at once.

Every broker executes the notices below `/config/changes`; the active controller's broker tells its controller.
Source: Kafka 3.9 `ZkNodeChangeNotificationListener`, `TopicConfigHandler`, `DynamicLogConfig.reconfigure`.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from controller_core.messages.events import UncleanElectionEnabled
from controller_core.model.config import UNCLEAN_LEADER_ELECTION, is_true
from controller_core.model.errors import MalformedZnodeError, NodeExistsError, NoNodeError
from controller_core.model.partitions import BrokerId
from controller_core.ports.zookeeper import WatchEvent, WatchEventKind, ZooKeeper
from controller_core.znodes.configs import decode_config, decode_config_change
from controller_core.znodes.paths import CONFIG_CHANGE_PREFIX, CONFIG_CHANGES, DEFAULT_ENTITY, config_path

_BROKERS: Final = "brokers/"
_TOPICS: Final = "topics/"


class ConfigChanges:
    """The notices that one broker has not executed yet.

    Attributes:
        unclean_election: whether it is on for topics that say nothing.
    """

    def __init__(self, zookeeper: ZooKeeper, broker: BrokerId, hear: Callable[[], None], *, static: bool) -> None:
        """Describes them; `begin` reads.

        Args:
            zookeeper: the session of the watch.
            broker: whose dynamic config counts, before that of all brokers.
            hear: told that there may be new notices; `executed` reads them.
            static: what the broker's own settings say of unclean election.
        """
        self._zookeeper = zookeeper
        self._broker = broker
        self._hear = hear
        self._static = static
        self._executed = ""
        self.unclean_election = static

    def begin(self) -> None:
        """Executes what is there already, as a broker that starts: its controller is not active yet and does nothing."""
        with suppress(NodeExistsError):
            self._zookeeper.create(CONFIG_CHANGES, make_parents=True)
        self._executed = max(self._listed(), default="")
        self.unclean_election = self._default()

    def executed(self) -> Iterator[UncleanElectionEnabled]:
        """What the new notices tell the controller, in their order."""
        for name in sorted(each for each in self._listed() if each > self._executed):
            self._executed = name
            path = f"{CONFIG_CHANGES}/{name}"
            try:
                entity = decode_config_change(self._zookeeper.get(path)[0], path=path).entity_path
            except (NoNodeError, MalformedZnodeError):  # removed for its age, or nobody's: Kafka's brokers log it
                continue
            if entity.startswith(_TOPICS) and is_true(self._value(entity) or ""):
                yield UncleanElectionEnabled(entity.removeprefix(_TOPICS))
            elif entity in {f"{_BROKERS}{DEFAULT_ENTITY}", f"{_BROKERS}{self._broker}"}:
                before, self.unclean_election = self.unclean_election, self._default()
                if self.unclean_election and not before:
                    yield UncleanElectionEnabled()

    def _listed(self) -> list[str]:
        names = self._zookeeper.children(CONFIG_CHANGES, watch=self._fired)
        return [each for each in names if each.startswith(CONFIG_CHANGE_PREFIX)]

    def _fired(self, event: WatchEvent) -> None:
        if event.kind is not WatchEventKind.LOST:
            self._hear()

    def _default(self) -> bool:
        values = [self._value(f"{_BROKERS}{each}") for each in (self._broker, DEFAULT_ENTITY)]
        said = next((each for each in values if each is not None), None)
        return self._static if said is None else is_true(said)

    def _value(self, entity: str) -> str | None:
        kind, _, name = entity.partition("/")
        path = config_path(kind, name)
        with suppress(NoNodeError, MalformedZnodeError):  # as if it said nothing
            return decode_config(self._zookeeper.get(path)[0], path=path).config.get(UNCLEAN_LEADER_ELECTION)
        return None
