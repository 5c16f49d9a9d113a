"""The planner's matrix: `python -m tests.benchmarks.bench_planning [--sizes S,M,L,XL] [--racks 1,3,4] [--modes totals,topics]`.

All of it are 168 cases, those at XL of up to half a minute; sizes, racks, kinds and modes choose a part. Each case is a
process of its own: CPU seconds (not wall) from decoded tables to the stored plan, peak memory of that process, and beside it,
at S and M, what a user would pick instead; and how fast the machine is just then (`yardstick`). Nothing here is asserted;
read the ratios.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from controller_core.model.dialect import dialect_for
from spark_jobs.planner.bounds import problem_of
from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.predict import moves_of, predict_plan
from spark_jobs.planner.verify import verify
from spark_jobs.planner.waves import Limits, schedule
from tests.benchmarks.planning_clusters import KINDS, columns
from tests.benchmarks.planning_peers import GreedyStuckError, greedy, moves, over_zookeeper, round_robin
from tests.benchmarks.yardstick import yardstick

PEERS = ("S", "M")
TITLES = (
    "case", "moves", "bound", "gap", "leaders", "plan s", "verify/plan", "GB", "waves/bound", "predict s", "yardstick s",
    "greedy", "round robin", "--generate", "topicmappr", "topicmappr, all anew",
)  # fmt: skip
MODES = {"totals": False, "topics": True}


def measured(size, kind, racks, topic_spread, kafka):
    """One case: a dictionary of figures."""
    table = columns(size, kind, racks=racks)
    begin = time.process_time()
    state = ClusterState.from_columns(**table)
    goals = Goals(topic_spread=topic_spread, tolerance=Tolerance.uniform(0))
    plan = optimal_plan(state, goals)
    with tempfile.TemporaryDirectory() as folder:
        for name, document in (
            ("plan", plan.reassignment_json()),
            ("rollback", plan.rollback_json()),
            ("certificate", plan.certificate_json()),
            ("summary", plan.summary()),
        ):
            (Path(folder) / name).write_text(json.dumps(document))
    planned = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    begin = time.process_time()
    verify(plan.problem, plan.lists, plan.certificate)
    verified = time.process_time() - begin
    cut = schedule(plan, Limits(in_max=20, out_max=20))
    begin = time.process_time()
    prediction = predict_plan(state, moves_of(cut), dialect_for("3.9"))
    predicted = time.process_time() - begin
    figures = {
        "case": f"{size} {kind} r{racks}{' T' if topic_spread else ''}",
        "moves": plan.moves,
        "bound": plan.moves_bound,
        "gap": plan.gap,
        "leaders": f"{plan.leader_changes}/{plan.verdict.leader_changes_bound}",
        "plan s": f"{planned:.2f}",
        "verify/plan": f"{verified / planned:.2f}",
        "GB": f"{peak:.2f}",
        "waves/bound": f"{len(cut.waves)}/{cut.lower_bound}",
        "predict s": f"{predicted:.2f}{' !' if prediction.problems else ''}",
        "yardstick s": f"{yardstick():.2f}",
    }
    if size in PEERS:
        try:
            found, missed = greedy(problem_of(state, goals))
            figures["greedy"] = f"{found}{f' ({missed} bounds missed)' if missed else ''}"
        except GreedyStuckError:
            figures["greedy"] = "stuck"
        figures["round robin"] = moves(state, round_robin(state))
    if kafka:
        figures |= over_zookeeper(state, problem_of(state, goals))
    return figures


def main():
    """Prints the table, a line per case as it is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="S,M,L,XL")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--racks", default="1,3,4")
    parser.add_argument("--modes", default=",".join(MODES), help="totals, topics (with topic spread) or both")
    parser.add_argument(
        "--no-kafka", action="store_true", help="leave out what needs a ZooKeeper: --generate, topicmappr"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(*json.loads(arguments.one))))
        return
    print("| " + " | ".join(TITLES) + " |")
    print("|" + " --- |" * len(TITLES))
    for size in arguments.sizes.split(","):
        for racks in map(int, arguments.racks.split(",")):
            for kind in arguments.kinds.split(","):
                for topic_spread in (MODES[mode] for mode in arguments.modes.split(",")):
                    kafka = not arguments.no_kafka and size == "M" and racks == 3 and not topic_spread
                    case = json.dumps([size, kind, racks, topic_spread, kafka])
                    command = [sys.executable, "-m", "tests.benchmarks.bench_planning", "--one", case]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    if done.returncode:
                        why = [f"status {done.returncode}", *done.stderr.strip().splitlines()][-1]
                        print(f"| {size} {kind} r{racks} | failed: {why} |", flush=True)
                        continue
                    figures = json.loads(done.stdout.splitlines()[-1])
                    print("| " + " | ".join(str(figures.get(title, "")) for title in TITLES) + " |", flush=True)


if __name__ == "__main__":
    main()
