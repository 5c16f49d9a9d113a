"""`kafka-maintenance analyse` and `report`: a date's analysis from the store into the store, and what it says."""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from controller_core.adapters.local_file import write_whole
from controller_core.model.words import counted
from controller_core.ports.object_store import ObjectStore
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_dry_run_argument,
    add_json_argument,
    add_store_arguments,
    day,
    positive,
    run_id_of,
    show,
    show_markdown,
    store_of,
)
from kafka_maintenance.cli.named_files import json_object, writable_folder, writing
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.operations.errors import BadInputError


def add_parsers(commands: Any) -> None:
    """Adds `analyse` and `report` to the command line."""
    command = commands.add_parser(
        "analyse",
        help="analyse a date's snapshots with Spark",
        description="Analyses the newest snapshot of each cluster of one UTC date, and publishes report and tables.",
    )
    add_store_arguments(command)
    command.add_argument("--date", metavar="YYYY-MM-DD", type=day, help="the date (default: the newest there is)")
    command.add_argument("--clusters", metavar="NAME", action="append", help="only these clusters (repeatable)")
    command.add_argument("--run-id", metavar="ID", help="names the run; of one run only the first result is published")
    command.add_argument("--history-days", "--history-nights", metavar="N", type=positive, default=30,
                         help="days of comparison and trend (default: %(default)s)")  # fmt: skip
    command.add_argument("--settings", metavar="FILE", type=Path, help="JSON: Kafka versions and broker configs")
    command.add_argument("--goals", metavar="FILE", type=Path, help="JSON: the planner's parameters")
    command.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        help="keep staged snapshots, log and results here (default: none is kept but the log of a job that fails)",
    )
    command.add_argument(
        "--spark-master", metavar="URL", default="local[2]", help="as spark-submit takes it (default: %(default)s)"
    )
    command.add_argument(
        "--driver-memory", metavar="SIZE", default="2g", help="of the Spark driver (default: %(default)s)"
    )
    command.add_argument("--spark-conf", metavar="KEY=VALUE", type=_pair, action="append", default=[],
                         help="a setting of Spark (repeatable); for a cluster see docs/scaling.md")  # fmt: skip
    command.add_argument("--spark-jars", metavar="PATH,…", default="", help="for S3A, with commas")
    command.add_argument("--fail-if-incomplete", action="store_true", help="exit 3 when a cluster was not analysed")
    add_dry_run_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_analyse)
    report = commands.add_parser(
        "report",
        help="print a date's report",
        description="Prints the newest published report of a date; with --html the whole page, plots too, goes to a file.",
    )
    add_store_arguments(report)
    report.add_argument(
        "--date", metavar="YYYY-MM-DD", type=day, help="the date (default: the newest that was analysed)"
    )
    report.add_argument("--html", metavar="FILE", type=Path, help="write the page with its plots here")
    add_json_argument(report)
    report.set_defaults(run=_report)


def _analyse(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.analysis.run import analyse
    from kafka_maintenance.operations.snapshots.choice import choose
    from kafka_maintenance.spark.submit import SparkSettings

    store, now = store_of(arguments), datetime.now(UTC)
    settings, goals = json_object(arguments.settings, "settings"), json_object(arguments.goals, "goals")
    day = arguments.date or _newest_day(store, now)
    choice = choose(store, day, arguments.clusters, history_days=arguments.history_days)
    if arguments.dry_run:
        _show_choice(arguments, day, choice)
        return ExitStatus.DONE
    what = f"analysis of {day}, {counted(len(choice.snapshots), 'snapshot')}"
    with Bars(what), _folder(arguments.folder) as folder:
        done = analyse(
            store,
            choice.snapshots,
            folder,
            run_id=run_id_of(arguments, now),
            day=day,
            now=now,
            spark_settings=SparkSettings(
                master=arguments.spark_master,
                driver_memory=arguments.driver_memory,
                jars=tuple(filter(None, arguments.spark_jars.split(","))),
                conf=dict(arguments.spark_conf),
            ),
            settings=settings,
            goals=goals,
            history_days=arguments.history_days,
            missing=choice.missing,
            fail_if_incomplete=arguments.fail_if_incomplete,
        )
    _show(arguments, store, done)
    return ExitStatus.DONE


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Where an analysis works: the given folder, or one that is removed; of that the log stays when it fails, for the message names it."""
    from kafka_maintenance.operations.analysis.run import LOG

    if given is not None:
        yield writable_folder(given)
        return
    folder = Path(tempfile.mkdtemp(prefix="kafka-maintenance-"))
    try:
        yield folder
    except Exception:
        for each in folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            elif each.name != LOG:
                each.unlink()
        with suppress(OSError):  # the log is in it
            folder.rmdir()
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _show_choice(arguments: argparse.Namespace, day: date, choice: Any) -> None:
    """What would be analysed."""
    document = {
        "date": str(day),
        "snapshots": [each.uri for each in choice.snapshots],
        "missing": dict(choice.missing),
    }
    lines = [
        *(f"{each.cluster}: {each.uri}" for each in choice.snapshots),
        *(f"{cluster}: MISSING, {why}" for cluster, why in choice.missing.items()),
    ]
    show(
        arguments,
        "\n".join([*lines, f"{counted(len(choice.snapshots), 'snapshot')} of {day} would be analysed"]),
        document,
    )


def _report(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.analysis.published import key_of, latest_report

    store = store_of(arguments)
    found = latest_report(store, arguments.date)
    if arguments.html is not None:
        page = store.get(key_of(store, found.report_html))
        with writing(arguments.html):
            write_whole(arguments.html, page)
    _show(arguments, store, found)
    return ExitStatus.DONE


def _show(arguments: argparse.Namespace, store: ObjectStore, done: Any) -> None:
    from kafka_maintenance.operations.analysis.published import key_of

    text = store.get(key_of(store, done.report_markdown)).decode()
    show_markdown(
        arguments,
        text,
        (done.report_html, done.uri),
        {"manifest_uri": done.uri, "report_html": done.report_html, "report_markdown": done.report_markdown,
         "night": done.day, "digest": done.digest, "summary": dict(done.summary)},
    )  # fmt: skip


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, found {text!r}")
    return key, value


def _newest_day(store: Any, now: datetime) -> date:
    from controller_core.adapters.snapshot.manifest import last_date
    from kafka_maintenance.operations.snapshots.catalog import manifest_keys, place_of

    last = last_date(now)
    days = [day for day in (date.fromisoformat(place_of(key)[1]) for key in manifest_keys(store)) if day <= last]
    if not days:
        raise BadInputError(
            f"nothing analysed: expected a snapshot in {store.uri!r} of a date until {last}, found none; take one first"
        )
    return max(days)
