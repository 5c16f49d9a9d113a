"""What a day of a fleet costs Airflow: task instances, database rows, XComs, scheduler lag and time.

    python -m tests.benchmarks.bench_fleet [--clusters 200] [--clusters-per-task 50] [--dags snapshot_metadata nightly_analysis drain_isr_notifications] [--times 24]

A real Airflow on Postgres with `LocalExecutor`; each cluster is a chroot, with a small Kafka tree, of one real ZooKeeper. All runs that a day has take place,
one after the other: one snapshot, one analysis, and `--times` hourly reports. Figures are printed, nothing is asserted.
"""

import argparse
import json
import os
import time
from datetime import datetime

import psycopg2

from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.demo import AirflowServer
from kafka_maintenance.servers import PostgresServer, Workspace, ZooKeeperServer
from tests.kafka_maintenance.snapshot_world import PERSISTENT, broker
from tests.source_files import ROOT

ONCE_A_YEAR = "0 0 1 1 *"
TIMES_A_DAY = {"snapshot_metadata": 1, "nightly_analysis": 1, "drain_isr_notifications": 24}
CONF = {"nightly_analysis": {"alarm_severity": "none"}}
TIMEOUT_S = 3600.0
COLUMNS = ("runs", "instances", "processes", "failed", "rows", "XComs", "bytes", "wall s", "busy s", "lag s", "max s")
WIDTHS = (6, 10, 10, 7, 8, 7, 9, 9, 9, 7, 7)
TASKS = """
    select count(*), count(start_date), coalesce(sum(duration), 0), count(*) filter (where state in ('failed', 'upstream_failed')),
           percentile_cont(0.5) within group (order by extract(epoch from start_date - scheduled_dttm)),
           max(extract(epoch from start_date - scheduled_dttm))
    from task_instance where dag_id = %s and run_id = any(%s)
"""
XCOMS = "select count(*), coalesce(sum(octet_length(value::text)), 0) from xcom where dag_id = %s and run_id = any(%s)"


def fill(server, names):
    """A tree per cluster, without a controller; its brokers stay without a session."""
    with connect(server.hosts) as session:
        for name in names:
            tree = PERSISTENT | {f"/brokers/ids/{number}": broker(number) for number in (1, 2)}
            tree |= {"/cluster/id": json.dumps({"version": "1", "id": name * 4}).encode()}
            for path, data in tree.items():
                session.create(f"/{name}{path}", data, make_parents=True)


def settings(server, names, store, scratch):
    env = {
        f"KAFKA_MAINTENANCE_{name}_CRON": ONCE_A_YEAR
        for name in ("SNAPSHOT", "ANALYSIS", "DRAIN", "DRILL", "CHECK", "RETENTION")
    }
    env |= {
        "AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS": json.dumps(names),
        "AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE": str(store),
    }
    for name in names:
        fields = {
            "conn_type": "kafka_zookeeper",
            "host": server.hosts,
            "extra": {"chroot": name, "kafka_version": "3.9"},
        }
        env[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(fields)
    env["AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK"] = '{"conn_type": "spark", "host": "local[2]"}'
    return env | {"KAFKA_MAINTENANCE_SCRATCH": str(scratch), "KAFKA_MAINTENANCE_POKE_INTERVAL_S": "2"}


def rows_of(cursor):
    """Rows of every table, counted."""
    cursor.execute("select tablename from pg_tables where schemaname = 'public'")
    tables = [name for (name,) in cursor.fetchall()]
    counts = {}
    for table in tables:
        cursor.execute(f'select count(*) from "{table}"')
        counts[table] = cursor.fetchone()[0]
    return counts


def measured(api, database, dag_id, times):
    """The runs of a DAG that a day has, one after the other, as a row of the table."""
    with psycopg2.connect(database) as connection, connection.cursor() as cursor:
        before = rows_of(cursor)
    api.pause(dag_id, paused=False)
    run_ids, wall = [], 0.0
    for _ in range(times):
        run_ids.append(run_id := api.trigger(dag_id, CONF.get(dag_id)))
        state = api.wait_run(dag_id, run_id, timeout_s=TIMEOUT_S)
        if state != "success":
            print(f"{dag_id}: {state}\n{api.failures(dag_id, run_id)[-4000:]}")
        ended = api.run(dag_id, run_id)
        wall += (
            datetime.fromisoformat(ended["end_date"]) - datetime.fromisoformat(ended["start_date"])
        ).total_seconds()
    api.pause(dag_id, paused=True)
    time.sleep(3)  # the last rows of its log
    with psycopg2.connect(database) as connection, connection.cursor() as cursor:
        after = rows_of(cursor)
        cursor.execute(TASKS, (dag_id, run_ids))
        instances, started, busy, failed, lag, lag_max = cursor.fetchone()
        cursor.execute(XCOMS, (dag_id, run_ids))
        xcoms, size = cursor.fetchone()
    added = sum(after.values()) - sum(before.values())
    return instances, started, failed, added, xcoms, size, wall, float(busy), float(lag or 0), float(lag_max or 0)


def line(name, times, row):
    counts, seconds = row[:6], row[6:]
    widths = zip((*counts, *(f"{each:.1f}" for each in seconds)), WIDTHS[1:], strict=False)
    return f"{name:24}{times:{WIDTHS[0]}}" + "".join(f"{each:>{width}}" for each, width in widths)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--clusters-per-task", type=int, default=50, help="1: a task per cluster, as before batches")
    parser.add_argument("--times", type=int, default=24, help="how many hourly reports")
    parser.add_argument("--dags", nargs="+", default=list(TIMES_A_DAY), choices=TIMES_A_DAY)
    arguments = parser.parse_args()
    names = [f"c{number:03}" for number in range(arguments.clusters)]
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace) as server,
        PostgresServer(workspace) as postgres,
    ):
        fill(server, names)
        env = settings(server, names, workspace.subfolder("store"), workspace.subfolder("scratch"))
        env["KAFKA_MAINTENANCE_CLUSTERS_PER_TASK"] = str(arguments.clusters_per_task)
        with AirflowServer(workspace, database_url=postgres.url, repository=ROOT, env=env) as airflow:
            api = airflow.api()
            api.wait_dags(arguments.dags)
            database = postgres.url.replace("+psycopg2", "")
            print(f"{arguments.clusters} clusters, {arguments.clusters_per_task} in a task, {os.cpu_count()} cores")
            print(f"{'runs of':24}" + "".join(f"{name:>{width}}" for name, width in zip(COLUMNS, WIDTHS, strict=True)))
            day = []
            for dag_id in arguments.dags:
                times = min(TIMES_A_DAY[dag_id], arguments.times)
                day.append(measured(api, database, dag_id, times))
                print(line(dag_id, times, day[-1]), flush=True)
            print(line("the day", "", tuple(map(sum, zip(*(row[:8] for row in day), strict=True)))))


if __name__ == "__main__":
    main()
