"""The waves of a plan on its page: what each copies, and how long that takes where sizes and a throttle are known."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from controller_core.plans.conditions import AssignedTo
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.progress import Copy, copies, copy_seconds
from controller_core.plans.rules import rates_of
from kafka_maintenance.operations.apply.copying import in_bytes
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Column, Table, age_text, number


def waves(plan: Plan, proof: Mapping[str, Any] | None) -> Block:
    """Steps one after the other, each as long as what it copies: seconds, bytes or replicas, whichever of these is known first.

    Bytes are those of the proof, where the planner knew sizes; seconds those at the throttle of the plan, of a band at its least.
    What is written meanwhile comes on top.

    Args:
        plan: of several steps.
        proof: the state that the planner saw; None: not known.
    """
    copied_of = [copies(step) for step in plan.steps]
    sizes, leaders = _seen(copied_of, proof)
    rates = rates_of(plan.rules.throttle_bytes_per_s)
    found = [
        _Wave(
            f"step {number_}",
            step,
            partition_count=sum(isinstance(one, AssignedTo) for one in step.outcomes),
            copy_count=len(copied),
            byte_count=sum(sizes.get(each.partition, 0) for each in copied) if sizes else None,
            seconds=[copy_seconds(step, leaders, sizes, rate) for rate in rates] if sizes else [],
        )
        for number_, (step, copied) in enumerate(zip(plan.steps, copied_of, strict=True), start=1)
    ]
    columns, axis = ["Partitions", "Replicas copied"], "replicas copied"
    if sizes:
        columns, axis = [*columns, "Bytes copied"], "bytes copied"
    if sizes and rates:
        columns.append(f"Takes at {' to '.join(f'{in_bytes(rate)}/s' for rate in rates)}")
        axis = f"seconds at {in_bytes(rates[0])}/s"
    columns += ["Requests", "Conditions checked"]
    begins = accumulate((each.length for each in found[:-1]), initial=0.0)
    return figures.time_line(
        "waves-line",
        "Waves",
        f"{counted(len(found), 'step')}; each begins only when the one before is done and verified.",
        [(each.name, begin, each.length, "--series-1", each.says) for each, begin in zip(found, begins, strict=True)],
        axis=f"{axis} so far",
        table=Table(
            id="waves-table",
            caption="Waves",
            columns=(Column("Step"), *(Column(text, numeric=True) for text in columns)),
            rows=[(Cell(each.name, value=at), *each.cells) for at, each in enumerate(found, start=1)],
        ),
    )


class _Wave(NamedTuple):
    """A step and what it copies; bytes are None where sizes are not known, seconds empty there and without a throttle.

    Seconds are one for each rate of a band, the slowest first.
    """

    name: str
    step: PlanStep
    partition_count: int
    copy_count: int
    byte_count: int | None
    seconds: Sequence[float]

    @property
    def length(self) -> float:
        """Of its bar."""
        if self.seconds:
            return self.seconds[0]
        if self.byte_count is not None:
            return float(self.byte_count)
        return float(self.copy_count or len(self.step.outcomes))

    @property
    def says(self) -> str:
        """What it copies, in words."""
        parts = [f"{counted(self.copy_count, 'replica')} of {counted(self.partition_count, 'partition')}"]
        if self.byte_count is not None:
            parts.append(in_bytes(self.byte_count))
        if self.seconds:
            parts.append(_lasting(self.seconds))
        return ", ".join(parts)

    @property
    def cells(self) -> list[Cell]:
        """Its row, but for its name."""
        cells = [number(self.partition_count), number(self.copy_count)]
        if self.byte_count is not None:
            cells.append(Cell(in_bytes(self.byte_count), value=self.byte_count))
        if self.seconds:
            cells.append(Cell(_lasting(self.seconds), value=self.seconds[0]))
        return [*cells, number(len(self.step.effects)), number(len(self.step.conditions))]


def _seen(
    copied_of: Sequence[Sequence[Copy]], proof: Mapping[str, Any] | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, BrokerId]]:
    """Bytes of a replica, where the planner knew them, and the leader, of each partition that is copied."""
    wanted = {each.partition for copied in copied_of for each in copied}
    sizes, leaders = {}, {}
    for row in proof["state"]["partitions"] if proof else ():
        if (row["topic"], row["partition"]) not in wanted:
            continue
        partition = TopicPartition(row["topic"], row["partition"])
        leaders[partition] = BrokerId(row["leader"])
        if "size" in row:
            sizes[partition] = int(row["size"])
    return sizes, leaders


def _lasting(seconds: Sequence[float]) -> str:
    return " to ".join(age_text(each) for each in reversed(seconds))
