"""The broker configs that a controller looks at, and the one topic config.

Source: Kafka 3.9 `KafkaConfig`. Names of the text form are Kafka's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controller_core.model.dialect import Dialect
from controller_core.model.partitions import BrokerId

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Configs of the broker that is the controller; percentages are whole numbers, intervals seconds."""

    controller_id: BrokerId
    unclean_leader_election: bool = False
    delete_topic: bool = True
    auto_leader_rebalance: bool = True
    imbalance_percentage: int = 10
    imbalance_check_interval_s: int = 300
    inter_broker_listener: str = "PLAINTEXT"


def config_from(configs: Mapping[str, str | int], *, controller_id: BrokerId, dialect: Dialect) -> ControllerConfig:
    """The config of a broker from Kafka's names; what is not named has the default of the version.

    Args:
        configs: values as text, or as what the text means.
        controller_id: the broker's id.
        dialect: decides the defaults.
    """

    def flag(name: str, *, default: bool) -> bool:
        return is_true(configs[name]) if name in configs else default

    listener = configs.get("inter.broker.listener.name") or configs.get("security.inter.broker.protocol", "PLAINTEXT")
    return ControllerConfig(
        controller_id=controller_id,
        unclean_leader_election=flag(UNCLEAN_LEADER_ELECTION, default=dialect.unclean_leader_election_default),
        delete_topic=flag("delete.topic.enable", default=dialect.delete_topic_default),
        auto_leader_rebalance=flag("auto.leader.rebalance.enable", default=True),
        imbalance_percentage=int(configs.get("leader.imbalance.per.broker.percentage", 10)),
        imbalance_check_interval_s=int(configs.get("leader.imbalance.check.interval.seconds", 300)),
        inter_broker_listener=str(listener),
    )


def is_true(value: str | int) -> bool:
    """Kafka's boolean: "true" in any case, or True."""
    return str(value).strip().lower() == "true"
