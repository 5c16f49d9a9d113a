"""What a day of a fleet costs Airflow: task instances, database rows, XComs, scheduler lag and time.

    python -m tests.benchmarks.bench_fleet [--clusters 200] [--runs drain_isr_notifications snapshot_metadata nightly_analysis]

A real Airflow on Postgres with `LocalExecutor`; each cluster is a chroot, with a small Kafka tree, of one real ZooKeeper. Each DAG runs once, and a
day is one snapshot, one analysis and 24 hourly reports. Figures are printed, nothing is asserted.
"""

import argparse
import json
import os
import time
from datetime import datetime
from pathlib import Path

import psycopg2

from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.demo import AirflowServer
from kafka_maintenance.servers import PostgresServer, Workspace, ZooKeeperServer
from tests.kafka_maintenance.snapshot_world import PERSISTENT, broker

ROOT = Path(__file__).parents[2]
ONCE_A_YEAR = "0 0 1 1 *"
TIMES_A_DAY = {"snapshot_metadata": 1, "nightly_analysis": 1, "drain_isr_notifications": 24}
CONF = {"nightly_analysis": {"alarm_severity": "none"}}
TIMEOUT_S = 3600.0
TASKS = """
    select count(*), count(start_date), coalesce(sum(duration), 0),
           percentile_cont(0.5) within group (order by extract(epoch from start_date - scheduled_dttm)),
           max(extract(epoch from start_date - scheduled_dttm))
    from task_instance where run_id = %s
"""
XCOMS = "select count(*), coalesce(sum(octet_length(value::text)), 0) from xcom where run_id = %s"


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


def measured(api, database, dag_id):
    """One run of a DAG, as a row of the table."""
    with psycopg2.connect(database) as connection, connection.cursor() as cursor:
        before = rows_of(cursor)
    api.pause(dag_id, paused=False)
    run_id = api.trigger(dag_id, CONF.get(dag_id))
    state = api.wait_run(dag_id, run_id, timeout_s=TIMEOUT_S)
    if state != "success":
        print(f"{dag_id}: {state}\n{api.failures(dag_id, run_id)[-4000:]}")
    ended = api.run(dag_id, run_id)
    wall = (datetime.fromisoformat(ended["end_date"]) - datetime.fromisoformat(ended["start_date"])).total_seconds()
    time.sleep(3)  # the last rows of its log
    with psycopg2.connect(database) as connection, connection.cursor() as cursor:
        after = rows_of(cursor)
        cursor.execute(TASKS, (run_id,))
        instances, started, busy, lag, lag_max = cursor.fetchone()
        cursor.execute(XCOMS, (run_id,))
        xcoms, size = cursor.fetchone()
    added = sum(after.values()) - sum(before.values())
    return instances, started, added, xcoms, size, float(wall), float(busy), float(lag or 0), float(lag_max or 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--runs", nargs="+", default=list(TIMES_A_DAY), choices=TIMES_A_DAY)
    arguments = parser.parse_args()
    names = [f"c{number:03}" for number in range(arguments.clusters)]
    with (
        Workspace.create_temporary() as workspace,
        ZooKeeperServer(workspace) as server,
        PostgresServer(workspace) as postgres,
    ):
        fill(server, names)
        env = settings(server, names, workspace.subfolder("store"), workspace.subfolder("scratch"))
        with AirflowServer(workspace, database_url=postgres.url, repository=ROOT, env=env) as airflow:
            api = airflow.api()
            api.wait_dags(arguments.runs)
            database = postgres.url.replace("+psycopg2", "")
            print(f"{arguments.clusters} clusters, {os.cpu_count()} cores")
            print(
                f"{'one run of':24}{'instances':>10}{'processes':>10}{'rows':>8}{'XComs':>7}{'bytes':>9}{'wall s':>8}{'busy s':>8}{'lag s':>7}{'max':>7}"
            )
            found = {}
            for dag_id in arguments.runs:
                found[dag_id] = measured(api, database, dag_id)
                instances, started, added, xcoms, size, *seconds = found[dag_id]
                print(
                    f"{dag_id:24}{instances:10}{started:10}{added:8}{xcoms:7}{size:9}"
                    + "".join(f"{each:{width}.1f}" for each, width in zip(seconds, (8, 8, 7, 7), strict=True)),
                    flush=True,
                )
            day = [sum(TIMES_A_DAY[dag_id] * row[column] for dag_id, row in found.items()) for column in range(7)]
            print(
                f"{'a day of these':24}{day[0]:10}{day[1]:10}{day[2]:8}{day[3]:7}{day[4]:9}{day[5]:8.0f}{day[6]:8.0f}"
            )


if __name__ == "__main__":
    main()
