"""What successors of one context cost to hold: `python -m tests.benchmarks.core_memory`, three figures in MB.

Measured in a process of its own that made nothing else, as growth of its resident memory: the context; 200 successors
that differ by one election each; 200 successors that differ by the failure of another broker each.
"""

import argparse
import gc
import os
from collections.abc import Callable
from pathlib import Path

from controller_core.context.context import ControllerContext
from controller_core.controller.brokers import OnBrokerFailure
from controller_core.controller.elections import PREFERRED
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.model.partitions import BrokerId
from controller_core.model.states import PartitionState
from controller_core.runtime.simulated.answers import SimulatedAnswers
from tests.benchmarks.core_clusters import BROKERS, cluster, run


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def grown_mb(make: Callable[[], object]) -> tuple[float, object]:
    gc.collect()
    before = resident_mb()
    made = make()
    gc.collect()
    return resident_mb() - before, made


def after_an_election(context: ControllerContext, number: int) -> ControllerContext:
    partition = min(context.partitions_on_broker(BrokerId(number)))
    elect = ChangePartitionStates((partition,), PartitionState.ONLINE, PREFERRED)
    return run(context, SimulatedAnswers(found=context), elect).context


def after_a_failure(context: ControllerContext, number: int) -> ControllerContext:
    dead = (BrokerId(number),)
    return run(context.without_brokers(dead), SimulatedAnswers(found=context), OnBrokerFailure(dead)).context


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200_000)
    options = parser.parse_args()
    one, context = grown_mb(lambda: cluster(options.partitions))
    assert isinstance(context, ControllerContext)
    elections, kept = grown_mb(lambda: [after_an_election(context, number) for number in range(BROKERS)])
    failures, also_kept = grown_mb(lambda: [after_a_failure(context, number) for number in range(BROKERS)])
    assert kept, also_kept
    print(f"{one:.1f} {elections:.1f} {failures:.1f}")


if __name__ == "__main__":
    main()
