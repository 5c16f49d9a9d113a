"""The waves of a plan on its page: what each copies, and how long that takes where sizes and a throttle are known."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from controller_core.plans.conditions import AssignedTo
from controller_core.plans.plan import Plan
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
    spans, rows, begin = [], [], 0.0
    for number_, (step, copied) in enumerate(zip(plan.steps, copied_of, strict=True), start=1):
        partitions = [one for one in step.outcomes if isinstance(one, AssignedTo)]
        size = sum(sizes.get(each.partition, 0) for each in copied)
        lasts = [copy_seconds(step, leaders, sizes, rate) for rate in rates] if sizes else []
        length = lasts[0] if lasts else float(size if sizes else len(copied) or len(step.outcomes))
        told = f"{counted(len(copied), 'replica')} of {counted(len(partitions), 'partition')}"
        told = f"{told}, {in_bytes(size)}" if sizes else told
        name = f"step {number_}"
        spans.append((name, begin, length, "--series-1", f"{told}, {_lasting(lasts)}" if lasts else told))
        rows.append(
            (
                Cell(name, value=number_),
                number(len(partitions)),
                number(len(copied)),
                *([Cell(in_bytes(size), value=size)] if sizes else []),
                *([Cell(_lasting(lasts), value=lasts[0])] if lasts else []),
                number(len(step.effects)),
                number(len(step.conditions)),
            )
        )
        begin += length
    at = " to ".join(f"{in_bytes(rate)}/s" for rate in rates)
    numeric = ["Partitions", "Replicas copied", *(["Bytes copied"] if sizes else [])]
    numeric += [f"Takes at {at}"] if sizes and rates else []
    columns = (
        Column("Step"),
        *(Column(text, numeric=True) for text in (*numeric, "Requests", "Conditions checked")),
    )
    axis = f"seconds at {in_bytes(rates[0])}/s" if sizes and rates else "bytes copied" if sizes else "replicas copied"
    return figures.time_line(
        "waves-line",
        "Waves",
        f"{counted(len(plan.steps), 'step')}; each begins only when the one before is done and verified.",
        spans,
        axis=f"{axis} so far",
        table=Table(id="waves-table", caption="Waves", columns=columns, rows=rows),
    )


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
