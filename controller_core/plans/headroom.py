"""A band of rates from what a person says that each broker can spare of its network and of its disks.

Source: docs/operations.md, "Throttle"; KIP-73: the rate holds for what a broker sends and, apart, for what it receives.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller_core.model.partitions import BrokerId
from controller_core.plans.rules import EXPECTED_THROTTLE, Throttle, ThrottleBand, is_whole_number, throttle_from

OTHERS: Final = "*"
_LEAST_OF_MOST: Final = 4


class Spare(NamedTuple):
    """What a broker can spare, bytes per second: of its network in each direction, of its disks in both together."""

    network: int
    disk: int

    @property
    def rate(self) -> int:
        """How fast it may send, and receive at the same time: its disks read the one and write the other."""
        return min(self.network, self.disk // 2)


@dataclass(frozen=True, slots=True)
class Headroom:
    """What brokers can spare; `others` counts for those that are not named, None: nothing is known of them."""

    brokers: Mapping[BrokerId, Spare]
    others: Spare | None = None

    def unknown(self, brokers: Collection[BrokerId]) -> list[BrokerId]:
        """Those of which nothing is known."""
        return [] if self.others else sorted(set(brokers) - self.brokers.keys())

    def narrowest(self, brokers: Collection[BrokerId]) -> tuple[BrokerId, Spare]:
        """The one that can spare least; none of `brokers` may be unknown."""
        known = {each: self.brokers.get(each, self.others) for each in sorted(brokers)}
        return min(((each, spare) for each, spare in known.items() if spare), key=lambda found: found[1].rate)


def band_of(spare: Spare) -> ThrottleBand:
    """From a quarter of what the narrowest broker can spare to all of it."""
    return ThrottleBand(max(1, spare.rate // _LEAST_OF_MOST), spare.rate)


def throttle_or_headroom(value: int | str | None) -> Throttle | Headroom:
    """What a person writes for the throttle of a plan: one of `throttle_from`, or `auto:BROKER=NETWORK/DISK,…`.

    Raises:
        ValueError: something else; says what was expected.
    """
    if not isinstance(value, str) or "=" not in value:
        return throttle_from(value)
    found: dict[str, Spare] = {}
    for entry in value.removeprefix("auto:").split(","):
        broker, _, spare = entry.strip().partition("=")
        network, _, disk = spare.partition("/")
        numbers = is_whole_number(network) and is_whole_number(disk, 2)
        if not value.startswith("auto:") or not numbers or not (broker == OTHERS or is_whole_number(broker, 0)):
            raise ValueError(f"{EXPECTED_THROTTLE}, not {entry!r} in {value!r}")
        if broker in found:
            raise ValueError(f"{EXPECTED_THROTTLE}, each broker once, not {broker} twice in {value!r}")
        found[broker] = Spare(int(network), int(disk))
    others = found.pop(OTHERS, None)
    return Headroom({BrokerId(int(broker)): spare for broker, spare in found.items()}, others)
