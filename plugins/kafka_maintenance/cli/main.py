"""`kafka-maintenance`: the operations of the DAGs without Airflow; each sub-command calls what a DAG's task calls.

Exit status: 0 done, 1 refused or nothing applied, 2 bad input, 3 the outside failed, 4 a judgement found something.
"""

import argparse
import atexit
import contextlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance import __version__
from kafka_maintenance.cli import (
    act_as_controller,
    alarms,
    analyse,
    audit,
    completion,
    executions,
    explain,
    history,
    install_dags,
    kraft,
    lab,
    local_stack,
    make_pools,
    metrics,
    plan_file,
    restore,
    snapshots,
    status,
    zookeeper_files,
)
from kafka_maintenance.cli import plan as cli_plan
from kafka_maintenance.cli.approved_plan import carry_out
from kafka_maintenance.cli.arguments import (
    STORE_VARIABLE,
    ExitStatus,
    add_age_argument,
    add_approve_arguments,
    add_client_settings_argument,
    add_cluster_argument,
    add_dry_run_argument,
    add_json_argument,
    add_plan_argument,
    add_store_arguments,
    brokers_named,
    done,
    exit_status,
    positive,
    run_id_of,
    show,
    store_of,
    tell,
    whole_number,
)
from kafka_maintenance.cli.command_parser import PROGRAM, CommandParser, explain_commands
from kafka_maintenance.cli.interruption import say_interrupted
from kafka_maintenance.cli.output import open_what_is_printed_to
from kafka_maintenance.cli.permission import add_permission_arguments, window_closed_now
from kafka_maintenance.cli.progress import Bars, log_to_stderr, show_read, show_steps
from kafka_maintenance.cli.zookeeper_arguments import add_zookeeper_arguments, address_of

TRACEBACK_VARIABLE: Final = "KAFKA_MAINTENANCE_TRACEBACK"
_PAUSE_MS_MAX: Final = 3_600_000
COMPLETION_VARIABLE: Final = "_ARGCOMPLETE"  # set by the script of `completion`


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit status; an error is one line on standard error, never a traceback.

    With `--json` the error is also a document on standard output: `{"error": class, "message": text}`; a wrong command line has
    not been understood, so the option is looked for in its words. A traceback is printed when the environment variable `KAFKA_MAINTENANCE_TRACEBACK` is set.
    """
    log_to_stderr()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        root = parser()
        if COMPLETION_VARIABLE in os.environ:
            import argcomplete

            argcomplete.autocomplete(root)
        return _finished(root, given)
    except KeyboardInterrupt as interrupt:
        return say_interrupted(interrupt)
    except Exception as error:  # noqa: BLE001 - the outermost place: whatever it is becomes a message and a status
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        status = exit_status(error)
        message = _message(error)
        if any(
            word.startswith("--j") and "--json".startswith(word) for word in given
        ):  # argparse takes its beginning, too
            with contextlib.suppress(OSError):
                told = {"error": type(error).__name__, "message": message, "exit_status": int(status)}
                print(json.dumps(told, indent=1), flush=True)
        print(f"kafka-maintenance: {message}", file=sys.stderr)
        return int(status)


def run() -> NoReturn:
    """The program: `main`, and the end of its process.

    Python's part of an orderly end comes first (threads that are waited for, what `atexit` knows), then the process is left at once, before C++ takes
    its libraries down under the threads of others: 2 of 1,000 runs of `blame`, which reads Parquet, had ended in SIGABRT.
    """
    open_what_is_printed_to()
    status = main()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as the interpreter does first
    atexit._run_exitfuncs()  # noqa: SLF001 - and then
    with contextlib.suppress(OSError):  # `main` has told of it
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _finished(root: argparse.ArgumentParser, given: Sequence[str]) -> int:
    """Runs the sub-command; what it printed is written when this returns, so that a full disk is seen here."""
    try:
        parsed = root.parse_args(given)
    except SystemExit as ended:  # after --help or --version
        found = int(ended.code or 0)
    else:
        found = int(parsed.run(parsed) or ExitStatus.DONE)
    sys.stdout.flush()
    return found


def parser() -> argparse.ArgumentParser:
    """The whole command line; of one process it is built once for each default of `--store`, which is all that it reads of the environment."""
    return _parser_of(os.environ.get(STORE_VARIABLE))


@cache
def _parser_of(_store_by_default: str | None) -> argparse.ArgumentParser:
    root = CommandParser(
        prog=PROGRAM,
        description="Snapshots, analysis and approved repairs of ZooKeeper-mode Kafka clusters.",
        epilog=f"`{PROGRAM} COMMAND --help` has every argument, with examples.\n"
        "Exit status: 0 done, 1 refused or nothing applied, 2 bad input, 3 the outside failed, 4 something was found.",
    )
    root.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_json_argument(root)
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_snapshot(commands)
    snapshots.add_parsers(commands)
    history.add_parsers(commands)
    zookeeper_files.add_parsers(commands)
    restore.add_parsers(commands)
    analyse.add_parsers(commands)
    status.add_parsers(commands)
    metrics.add_parsers(commands)
    alarms.add_parsers(commands)
    cli_plan.add_parsers(commands)
    cli_plan.add_rollback(commands)
    plan_file.add_parsers(commands)
    install_dags.add_parsers(commands)
    make_pools.add_parsers(commands)
    kraft.add_parsers(commands)
    lab.add_parsers(commands)
    _add_apply(commands)
    act_as_controller.add_parsers(commands)
    audit.add_parsers(commands)
    executions.add_parsers(commands)
    explain.add_parsers(commands)
    _add_drain(commands)
    local_stack.add_parsers(commands)
    completion.add_parsers(commands)
    explain_commands(root)
    return root


def _message(error: Exception) -> str:
    if isinstance(error, ControllerCoreError | OSError | ValueError) or type(error).__module__.startswith(
        ("kafka_maintenance", "spark_jobs")
    ):
        return str(error) or type(error).__name__
    return f"internal error, {type(error).__name__}: {' '.join(str(error).split())}; set {TRACEBACK_VARIABLE}=1 to see where, and report it"


# ----------------------------------------------------------------------------------------------------- snapshot


def _add_snapshot(commands: Any) -> None:
    command = commands.add_parser(
        "snapshot",
        help="store the cluster's metadata",
        description="Stores the whole tree of a cluster, once per run id.",
    )
    add_zookeeper_arguments(command)
    add_cluster_argument(command)
    add_store_arguments(command)
    command.add_argument("--run-id", metavar="ID", help="names the run: a second call with it makes no second snapshot")
    command.add_argument("--key-file", metavar="FILE", type=Path, help="keep secrets, sealed with this key")
    command.add_argument(
        "--batch-count",
        metavar="N",
        type=positive,
        default=1000,
        help="znodes per request at most (default: %(default)s)",
    )
    command.add_argument(
        "--pause-ms",
        metavar="N",
        type=whole_number(1, _PAUSE_MS_MAX),
        default=0,
        help="pause after each request (default: none)",
    )
    command.add_argument(
        "--new-cluster-id",
        action="store_true",
        help="the cluster was made anew: its name may have snapshots of another Kafka cluster id",
    )
    command.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        help="brokers to ask how full the disks are, for the analysis of the date",
    )
    add_client_settings_argument(command)
    add_dry_run_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_snapshot)


def _snapshot(arguments: argparse.Namespace) -> int:
    from controller_core.adapters.snapshot.cut import ReadOptions
    from kafka_maintenance.operations.analysis.disks import measure_disks
    from kafka_maintenance.operations.snapshots.take import take_snapshot

    brokers, now = brokers_named(arguments), datetime.now(UTC)
    store, run_id = store_of(arguments), run_id_of(arguments, now)
    with Bars() as bars:
        result = take_snapshot(
            address=address_of(arguments),
            cluster=arguments.cluster,
            store=store,
            run_id=run_id,
            now=now,
            options=ReadOptions(batch_count=arguments.batch_count, pause_s=arguments.pause_ms / 1000),
            key_file=arguments.key_file,
            progress=show_read(bars),
            new_cluster_id=arguments.new_cluster_id,
        )
    disks = None
    if brokers is not None:
        tell(f"snapshot stored as {result.manifest_uri}; its brokers are asked for their disks")
        disks = measure_disks(store, arguments.cluster, brokers, run_id=run_id, now=now)
    sure = "consistent" if result.consistent else "NOT consistent"
    made = "snapshot taken" if result.created else "this run had its snapshot already"
    counts = ", ".join(f"{count} {name}" for name, count in result.counts.items() if count)
    kept = "" if disks is None else f"disks: {disks}\n"
    show(
        arguments,
        f"{done(arguments, made)}: {sure} at zxid {result.zxid:#x}; {counts}\n{kept}{result.manifest_uri}",
        {
            "manifest_uri": result.manifest_uri,
            "digest": result.digest,
            "consistent": result.consistent,
            "zxid": result.zxid,
            "counts": dict(result.counts),
            "created": result.created,
            "disks": disks,
        },
    )
    return ExitStatus.DONE


# -------------------------------------------------------------------------------------------------------- apply


def _add_apply(commands: Any) -> None:
    command = commands.add_parser(
        "apply",
        help="carry out an approved plan",
        description="Carries out a stored plan, if its digest is the approved one and the cluster is as it assumes. "
        "Without --approve it prints the plan and applies nothing.",
    )
    add_plan_argument(command)
    add_approve_arguments(command, "the 64 hex digits of the plan that you have read")
    add_permission_arguments(command)
    command.add_argument("--step-timeout-s", metavar="S", type=positive, help="how long a step's outcome is waited for")
    command.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        help="brokers to ask for reassignments (Kafka 2.4 or newer) and elections (2.2) (default: request znodes)",
    )
    add_client_settings_argument(command)
    add_zookeeper_arguments(command, required=False)
    add_json_argument(command)
    command.set_defaults(run=_apply)


def _apply(arguments: argparse.Namespace) -> int:
    return carry_out(arguments, _steps)


def _steps(arguments: argparse.Namespace, plan: Any, approved: Mapping[str, Any]) -> Any:
    from kafka_maintenance.operations.apply.plan import apply_plan
    from kafka_maintenance.operations.apply.stop import Stop, stopping_on_signals

    of = {"kind": plan.kind, "cluster": plan.cluster}
    with Bars(lines=False) as bars, stopping_on_signals(Stop()) as stop:
        return apply_plan(
            **approved,
            zookeeper=address_of(arguments),
            step_timeout_s=arguments.step_timeout_s,
            stop=stop,
            window=lambda: window_closed_now(arguments, approved["store"], **of),
            brokers=brokers_named(arguments),
            progress=show_steps(bars),
        )


# -------------------------------------------------------------------------------------------------------- drain


def _add_drain(commands: Any) -> None:
    command = commands.add_parser(
        "drain",
        help="report ISR-change notifications",
        description="Reports the ISR-change notifications that wait. `plan drain` plans to drain those that linger.",
    )
    add_zookeeper_arguments(command)
    add_age_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_drain)


def _drain(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.cluster.isr_notifications import report

    found = report(zookeeper=address_of(arguments), age_min_s=arguments.age_min_s)
    document = {name: getattr(found, name) for name in found.__slots__ if name not in {"text", "partitions"}}
    show(arguments, found.text, {**document, "partitions": [str(partition) for partition in found.partitions]})
    return ExitStatus.DONE


if __name__ == "__main__":
    sys.exit(main())
