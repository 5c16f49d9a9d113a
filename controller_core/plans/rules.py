"""How a plan is to be carried out, as its approver read it: what happens where the cluster differs from the plan."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct


class OnDifference(StrEnum):
    """What a run does when a partition or topic of the plan is no more as the plan expects, before a step or after it."""

    STOP = "stop"
    GO_ON = "go_on"


class BeforeStep(StrEnum):
    """What a run does when the cluster is not ready for a step after the first: another tool's request, a broker away, ….

    The first step is refused in any case: nothing was asked yet.
    """

    STOP = "stop"
    WAIT = "wait"


class ThrottleBand(NamedTuple):
    """Between which rates, in bytes per second and broker, a run may choose: the first step gets the least."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"auto:{self.least}-{self.most}"


Throttle = int | ThrottleBand | None
"""A rate in bytes per second and broker, a band of rates, or None: as fast as the brokers can."""


def rates_of(throttle: Throttle) -> tuple[int, ...]:
    """The rate, or the least and the most of a band, in bytes per second and broker; none without a throttle."""
    if throttle is None:
        return ()
    return (throttle.least, throttle.most) if isinstance(throttle, ThrottleBand) else (throttle,)


EXPECTED_THROTTLE: Final = "a throttle is bytes per second above 0, `auto:LEAST-MOST`, `auto:BROKER=NETWORK/DISK,…` (`*` for the other brokers) or `none`"


LONG_MAX: Final = 2**63 - 1  # of a config that is a LONG to Kafka, as the rates are


def is_whole_number(text: str, least: int = 1, most: int = LONG_MAX) -> bool:
    """Whether the text is a whole number from `least` to `most`; one of thousands of digits is no number to Python."""
    return text.isdecimal() and len(text) <= len(str(LONG_MAX)) and least <= int(text) <= most


def throttle_from(value: int | str | None) -> Throttle:
    """The throttle of a plan, as it is stored: a number, `auto:LEAST-MOST`, or `none`.

    Raises:
        ValueError: something else; says what was expected.
    """
    if value is None or value == "none":
        return None
    numbers = str(value).removeprefix("auto:").split("-")
    is_band = str(value).startswith("auto:")
    if all(map(is_whole_number, numbers)) and len(numbers) == 1 + is_band:
        band = ThrottleBand(int(numbers[0]), int(numbers[-1]))
        if band.least <= band.most:
            return band if is_band else band.least
    raise ValueError(f"{EXPECTED_THROTTLE}, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRules:
    """The rules of a plan; the defaults are those of a plan that names none.

    Under `GO_ON` a partition that differs is left out, named in the record and in the receipt, and the others go on; a
    step of which nothing was done ends the run under either rule. `throttle_bytes_per_s` is the rate at which a broker may
    send, and receive, what the plan moves, or a band of rates; None: as fast as it can. `step_pause_s` passes between the end of a step and the
    request of the next one.
    """

    on_difference: OnDifference = OnDifference.STOP
    before_step: BeforeStep = BeforeStep.STOP
    throttle_bytes_per_s: Throttle = None
    step_pause_s: int = 0


class StoredRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rules as a stored plan has them: a rate as a number, a band as `auto:LEAST-MOST`."""

    on_difference: OnDifference
    before_step: BeforeStep
    throttle_bytes_per_s: int | str | None = None
    step_pause_s: int = 0


def stored_rules(rules: ExecutionRules) -> StoredRules:
    """The rules as a plan is stored with them; `rules_of` reads them back."""
    found = rules.throttle_bytes_per_s
    return StoredRules(
        on_difference=rules.on_difference,
        before_step=rules.before_step,
        throttle_bytes_per_s=str(found) if isinstance(found, ThrottleBand) else found,
        step_pause_s=rules.step_pause_s,
    )


def rules_of(stored: StoredRules) -> ExecutionRules:
    """The rules that `stored_rules` was made of.

    Raises:
        ValueError: no rate, no band of rates, or a pause below 0; says what was expected.
    """
    if stored.step_pause_s < 0:
        raise ValueError(f"step_pause_s is 0 or more seconds, not {stored.step_pause_s}")
    return ExecutionRules(
        on_difference=stored.on_difference,
        before_step=stored.before_step,
        throttle_bytes_per_s=throttle_from(stored.throttle_bytes_per_s),
        step_pause_s=stored.step_pause_s,
    )


def rules_text(rules: ExecutionRules) -> tuple[str, ...]:
    """The rules as lines that an approver reads; empty for a plan that names none."""
    lines = []
    if rules.on_difference is OnDifference.GO_ON:
        lines.append(
            "A partition that is no more as planned when its step comes, or that somebody else moves or cancels meanwhile, is left "
            "out and named in the receipt; the others go on."
        )
    if rules.before_step is BeforeStep.WAIT:
        lines.append(
            "After the first step, each one waits until the cluster is ready for it: no request of another tool, all brokers of the "
            "plan registered, no more partitions offline, under-replicated or under min ISR beside the plan than when it began, and "
            "its change window open."
        )
    if rules.step_pause_s:
        lines.append(f"{rules.step_pause_s} s pass between the end of a step and the request of the next one.")
    if (throttle := rules.throttle_bytes_per_s) is not None:
        band = throttle if isinstance(throttle, ThrottleBand) else ThrottleBand(throttle, throttle)
        lines.append(
            f"Throttle: each broker sends and receives at most {band.most:,} bytes per second of what a step copies; "
            "set before the step, taken back after it, and a broker's own rate put back. Below the rate of produce no replica "
            "catches up."
        )
        if isinstance(throttle, ThrottleBand):
            lines.append(
                f"The rate begins at {band.least:,} bytes per second. It doubles after each step beside which nothing else suffered, up to the "
                "limit, halves after one that stood still or beside which the cluster was unwell, and is never below twice what is written "
                "to the partitions that a broker gets, where brokers say that."
            )
    return tuple(lines)


GO_ON = ExecutionRules(on_difference=OnDifference.GO_ON, before_step=BeforeStep.WAIT)
"""The rules of a plan of elections or reassignments."""
STOP_ON_DIFFERENCE = ExecutionRules()
"""The rules of a plan that names none."""
