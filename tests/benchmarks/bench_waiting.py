"""How long a worker is held by a plan of 200 waves whose task is deferred while Kafka works.

    python -m tests.benchmarks.bench_waiting [--waves 200]

Measured: the seconds inside `apply_plan` for each wave of a plan on the simulated cluster, of a look of the trigger, and of the start of
a task's process with all that it imports. Computed from these, with the time for which a task waits itself and for which is measured what is
written: the share of a plan's time, for waves of several lengths, beside a task that stays, which holds its worker all the time. Figures are printed, nothing is asserted.
"""

import argparse
import subprocess
import sys
import time
from contextlib import suppress

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.plans.request_znodes import Target
from kafka_maintenance.operations.apply.copying import SAMPLE_S
from kafka_maintenance.operations.apply.parked import wants_its_run
from kafka_maintenance.operations.errors import StillUnderWayError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.tasks.settings import SETTINGS
from tests.broker_ids import ids
from tests.kafka_maintenance.operations.apply.applying import NOW, ORDERS_0, apply, cluster

LISTS = (ids(3, 2, 1), ids(2, 1, 3))
START = "import airflow.sdk.execution_time.task_runner, kafka_maintenance.tasks.apply, kafka_maintenance.operations.apply.plan"


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waves", type=int, default=200)
    waves = parser.parse_args().waves
    store, world = MemoryStore(), cluster()
    targets = [[Target(*ORDERS_0, LISTS[number % 2])] for number in range(waves)]
    plan = plan_reassignment(store, "demo", waves=targets, zookeeper=world.zookeeper(), now=NOW)
    document, looks, inside = read_plan(store, plan.uri), [], []

    def call(*, resumed):
        with suppress(StillUnderWayError):
            apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0, resumed=resumed)

    for number in range(waves):
        world.hangs = True
        inside.append(seconds(lambda number=number: call(resumed=number > 0)))
        record = read_events(store, "demo", plan.digest)
        asked = (store, document, plan.digest, number, world.zookeeper(), record)
        looks.append(seconds(lambda asked=asked: wants_its_run(*asked)))
        world.wake()
    inside.append(seconds(lambda: call(resumed=True)))
    start = min(seconds(lambda: subprocess.run([sys.executable, "-c", START], check=True)) for _ in range(3))
    per_wave = sum(inside) / waves
    print(f"{waves} waves: {per_wave:.3f} s in apply_plan per wave, {sum(looks) / waves:.4f} s per look of the trigger")
    print(f"{start:.1f} s to start a task's process with its imports")
    print(f"{'a wave takes':>14} {'held, deferred':>15} {'brokers asked, throttled':>25} {'held, staying':>14}")
    for minutes in (5, 15, 16, 30, 60, 24 * 60):
        calls = 1 + (minutes * 60 - 1) // SETTINGS.wake_after_s
        held = calls * (start + per_wave + SETTINGS.patience_s)
        shares = [seconds / (minutes * 60) for seconds in (held, held + SAMPLE_S)]
        print(f"{minutes:>10} min {shares[0]:>15.2%} {shares[1]:>25.2%} {1:>14.0%}")


if __name__ == "__main__":
    main()
