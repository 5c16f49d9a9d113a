"""Loses a Celery worker at each task of the daily run and of a gated run, and prints how each ended.

    python -m tests.dags.live.worker_kills [--moment after]

A real stack: brokers, store, Airflow, two workers with homes, folders for temporary files and scratch folders of their own. At the first try of each
task the worker that runs it is killed with all that it started: `before` its work, or `after` it, when everything is written and Airflow has not
heard of it, which is the harder case. A worker with the same empty hands takes its place; the task is tried again once Airflow misses its heartbeat.
"""

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from kafka_maintenance.demo.airflow_api import RUN_ENDED
from kafka_maintenance.operations.analysis.published import current_analyses
from tests.dags.live.stack import CLUSTER, started
from tests.source_files import ROOT
from tests.visible_snapshots import visible_snapshots

RUN_TIMEOUT_S = 3600.0
POLICY = '''\
"""The policy file of a company that loses a worker at each task once."""
import os
import signal
from datetime import timedelta
from pathlib import Path

FOLDER, MOMENT = Path(os.environ["KILLED_AT"]), os.environ["KILLED_MOMENT"]


def stop_here(context, result=None):
    ti, home = context["ti"], Path(os.environ["AIRFLOW_HOME"]).name
    reached = FOLDER / f"{ti.dag_id}.{ti.task_id}"
    if ti.try_number == 1 and context["dag_run"].run_type == "manual":
        try:
            with reached.open("x") as file:
                file.write(home)
        except FileExistsError:
            return
        while True:
            signal.pause()


def task_policy(task):
    hook, mapped = f"{'pre' if MOMENT == 'before' else 'post'}_execute", hasattr(task, "partial_kwargs")
    if mapped:
        task.partial_kwargs["retry_delay"] = timedelta(seconds=2)
    else:
        task.retry_delay = timedelta(seconds=2)
    if "worker" in Path(os.environ["AIRFLOW_HOME"]).name:  # neither the DAG processor nor the scheduler
        if mapped:
            task.partial_kwargs[hook] = stop_here
        else:
            setattr(task, f"_{hook}_hook", stop_here)
'''


class Losing:
    """Kills the workers that have stopped at a task, and starts others in their place."""

    def __init__(self, live, folder):
        self.live, self.folder, self.killed = live, folder, []

    def kill(self):
        for reached in sorted(self.folder.iterdir()):
            name = reached.read_text().removeprefix("airflow-")
            if reached.name not in self.killed and name:
                self.killed.append(reached.name)
                self.live.stack.airflow.kill(name)
                self.live.stack.airflow.start_worker(name)

    def end(self, dag_id, run_id):
        """Waits for the end of a run, answering its gate; the tasks with their state and number of tries."""
        api, approver = self.live.operator, self.live.approver

        def over():
            self.kill()
            approver.answer_all(dag_id, run_id, "Approve", comment="a worker is lost at each task")
            return api.run(dag_id, run_id)["state"] in RUN_ENDED

        api.wait_for(over, what=f"run {run_id} of {dag_id} has ended", timeout_s=RUN_TIMEOUT_S)
        state = api.run(dag_id, run_id)["state"]
        if state != "success":
            print(f"{dag_id}: {state}\n{api.failures(dag_id, run_id)[-6000:]}", flush=True)
        return [
            (dag_id, ti["task_id"], ti["state"], ti["try_number"], f"{dag_id}.{ti['task_id']}" in self.killed)
            for ti in api.task_instances(dag_id, run_id)
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moment", choices=("before", "after"), default="after")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, reached = Path(name), Path(name) / "reached"
        reached.mkdir()
        (folder / "airflow_local_settings.py").write_text(POLICY)
        environment = {
            "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT, ROOT / "plugins"))),
            "KILLED_AT": str(reached),
            "KILLED_MOMENT": arguments.moment,
            "KAFKA_MAINTENANCE_SNAPSHOT_CRON": "0 0 1 1 *",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        }
        live = started(frozenset({"snapshot_metadata", "nightly_analysis", "elect_preferred_leaders"}), environment)
        try:
            sys.exit(_lose(live, Losing(live, reached), arguments.moment))
        finally:
            live.stack.stop()


def _lose(live, losing, moment):
    """Runs, table and what is wrong with what they left; the exit status."""
    rows, runs = [], {}
    today = datetime.now(UTC).date().isoformat()
    for dag_id, conf, how in (
        ("snapshot_metadata", {}, {}),
        ("nightly_analysis", {"alarm_severity": "none"}, {"partition_key": today}),
        ("elect_preferred_leaders", {"cluster": CLUSTER}, {}),
    ):
        runs[dag_id] = live.start(dag_id, conf, **how)
        rows += losing.end(dag_id, runs[dag_id])
        print(f"| {dag_id} | ended | {len(losing.killed)} workers lost so far |", flush=True)
    print("\n| task | worker lost | tries | state |\n| --- | --- | --- | --- |")
    for dag_id, task_id, state, tries, killed in rows:
        lost = f"yes, {moment} it" if killed else "yes, with another task" if tries > 1 else "no process"
        print(f"| `{dag_id}.{task_id}` | {lost} | {tries} | {state} |")
    snapshot, analysis, gated = (f"{dag_id}.{run_id}" for dag_id, run_id in runs.items())
    taken = [each for each in visible_snapshots(live.store, CLUSTER) if each.run_id.startswith(f"{snapshot}.")]
    receipts = [key for key in live.store.list(f"v1/receipts/cluster={CLUSTER}/") if key.endswith(".json")]
    found = {
        "snapshots of the run": len(taken),
        "analyses that count": len(current_analyses(live.store, today)),  # each try publishes, the newest counts
        "plans applied": len({key.split("/")[3] for key in receipts}),
        "leaders": live.leaders(),
    }
    print("".join(f"\n{what}: {number}" for what, number in found.items()))
    wrong = [row for row in rows if row[2] not in {"success", "skipped"} or (row[4] and row[3] == 1)]
    wrong += [what for what in found if found[what] not in (1, [1, 2, 3, 1, 2, 3])]
    print(f"\nwrong: {wrong or 'nothing'} ({analysis}, {gated})")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
