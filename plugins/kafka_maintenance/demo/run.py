"""`make demo`: the daily pipeline, whole, on a real Kafka cluster that needs care, in front of a person.

Environment: `KAFKA_VERSION` (3.9), `APPROVE` ("yes" answers the gates through Airflow's API, as a user would; otherwise
a person answers them in the UI), `AIRFLOW_PORT` (a free one). Exit status 0 when every part happened, else 1.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import NoReturn

from kafka.errors import KafkaError

from controller_core.model.dialect import dialect_for
from controller_core.model.errors import ControllerCoreError
from kafka_maintenance.demo.cluster import BROKER_CONFIG, INTER_BROKER_PROTOCOL_VERSION, ZOOKEEPER_CONFIG
from kafka_maintenance.demo.parts import Demo
from kafka_maintenance.demo.progress import Progress
from kafka_maintenance.demo.stack import CLUSTER_NAME, REPOSITORY, LocalStack, StackSettings
from kafka_maintenance.servers.broker_jvm import class_data_archive
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.java import find_java
from kafka_maintenance.servers.kafka_jars import kafka_jars
from kafka_maintenance.servers.s3 import gateway_program
from kafka_maintenance.servers.workspace import stop_orphans

AIRFLOW_ENV = {
    "KAFKA_MAINTENANCE_POKE_INTERVAL_S": "2",
    "KAFKA_MAINTENANCE_PATIENCE_S": "1",
    "KAFKA_MAINTENANCE_WAKE_AFTER_S": "15",
    "KAFKA_MAINTENANCE_DRAIN_AGE_MIN_S": "5",
    "KAFKA_MAINTENANCE_DRIVER_MEMORY": "1g",
}
LOGS = REPOSITORY / ".local" / "demo-logs"


def main() -> int:
    """Run the demo; the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup make demo` shall outlive its terminal
            signal.signal(number, _end)
    approve = os.environ.get("APPROVE", "").lower() in {"yes", "y", "1", "true"}
    progress = Progress()
    try:
        settings = _settings(os.environ)
        with progress.part("downloads and builds (once)"):
            prepare(settings.kafka_version)
        progress.started_s = time.monotonic()
        with _stack(settings, progress) as stack:
            demo = Demo(stack, progress, approve=approve)
            try:
                demo.run()
            finally:
                demo.cluster.close()
            _close(progress)
            if not approve:
                _stay_up(stack)
    except (LocalStackError, ControllerCoreError, KafkaError) as error:
        progress.fault(str(error))
        print(progress.closing_line())
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    used = os.times()
    cpu_s = used.user + used.system + used.children_user + used.children_system
    progress.say(f"everything is stopped; it used {cpu_s:.0f} s of processor time")
    print(progress.closing_line())
    return 1 if progress.faults or progress.missing() else 0


def prepare(version: str) -> None:
    """Fetch and build what is fetched and built once per machine."""
    stop_orphans()
    class_data_archive(version, find_java(), kafka_jars(version))
    gateway_program()


@contextlib.contextmanager
def _stack(settings: StackSettings, progress: Progress) -> Iterator[LocalStack]:
    stack = LocalStack(settings, say=progress.say)
    try:
        with progress.part("start of ZooKeeper, Kafka, object store, Postgres, Airflow"):
            stack.start()
        for name in ("operator", "approver", "viewer"):
            progress.say(f"login {stack.airflow.url}  {name} / {stack.airflow.users[name].password}")
        yield stack
    finally:
        try:
            with progress.part("stop"):
                if progress.faults or sys.exc_info()[0] is not None:
                    _keep_logs(stack, progress)
                stack.stop()
        finally:
            stack.stop()  # does nothing the second time; where the terminal is closed a print fails before the first


def _keep_logs(stack: LocalStack, progress: Progress) -> None:
    """Copy the logs to where they outlive the stack; where that fails, say so."""
    try:
        shutil.rmtree(LOGS, ignore_errors=True)
        shutil.copytree(stack.workspace.logs, LOGS)
    except OSError as error:  # shutil.Error is one
        progress.say(f"logs not kept in {LOGS}: {error}")
    else:
        progress.say(f"logs are kept in {LOGS}")


def _settings(environment: Mapping[str, str]) -> StackSettings:
    port, version = environment.get("AIRFLOW_PORT", ""), environment.get("KAFKA_VERSION") or "3.9"
    return StackSettings(
        cluster=CLUSTER_NAME,
        kafka_version=version,
        inter_broker_protocol_version=protocol_of(version),
        broker_config=BROKER_CONFIG,
        zookeeper_config=ZOOKEEPER_CONFIG,
        airflow_env=AIRFLOW_ENV,
        airflow_port=int(port) if port.isdecimal() else None,
    )


def protocol_of(version: str) -> str | None:
    """The inter.broker.protocol.version of the demo's brokers; None is that of the version itself.

    Brokers of 2.7 and newer write ISR-change notifications only while they speak an older protocol, as in an upgrade.
    """
    return INTER_BROKER_PROTOCOL_VERSION if dialect_for(version).isr_through_controller else None


def _close(progress: Progress) -> None:
    total_s = time.monotonic() - progress.started_s
    print("\n== time")
    for title, seconds in progress.seconds.items():
        print(f"{seconds:8.1f} s  {title}")
    print(f"{total_s:8.1f} s  in all, without downloads")
    for text in (*progress.faults, *progress.missing()):
        print(f"NOT DONE: {text}")


def _stay_up(stack: LocalStack) -> None:
    print(f"\nThe stack stays up: {stack.airflow.url}. Ctrl-C stops it.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    # A closing terminal sends SIGHUP twice: the second would interrupt the stopping.
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
