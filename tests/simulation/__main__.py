"""`python -m tests.simulation --seeds 2000`: run many seeds, tell the first failures as short scenarios."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.run import simulate

STEP_COUNT = 200
PROGRESS_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=STEP_COUNT, help="steps of each run")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failing seeds")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        failure = simulate(seed, options.steps)
        if failure is not None:
            failed += 1
            print(failure, flush=True)
            if failed >= options.failures:
                break
        if (seed + 1) % PROGRESS_EVERY == 0:
            print(f"{seed + 1 - options.first} seeds, {failed} failed", file=sys.stderr, flush=True)
    ran = seed - options.first + 1
    print(f"{ran} seeds of {options.steps} steps: {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
