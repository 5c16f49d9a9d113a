"""One date's analysis of every cluster in one Spark session: tables, proposals, report and a small summary.

    spark-submit --py-files JOBS.zip spark_jobs/nightly_analysis.py \
        --input FOLDER… --output FOLDER --run RUN --date YYYY-MM-DD [--settings FILE] [--goals FILE]

`--input` names snapshot folders or folders that hold some, local or `s3a://`; `@FILE` reads arguments from a file, one a
line. Of each cluster the newest snapshot of the date is analysed; earlier ones give the comparison and the history.
What is read is compared with its manifest, by size and SHA-256, unless `--verified` says that somebody did so already. One
damaged file costs its own cluster only: where reading fails all the same, every page is looked at and the others are analysed.
`--only imbalance findings` makes these results and `not_analysed`; `failure_drill.py` and `history.py` are such jobs with
a name. An `--output` may be used again: its results are replaced, those that this job does not make stay. The job's last act is
`delivered.json`, the list of its files. A job whose submitter is gone ends, JVM and all.
Exit status 0: done; 2: bad input; 4: done, but not for every cluster (only with `--fail-if-incomplete`).
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from controller_core.model.words import counted
from spark_jobs.arguments import Args, parse
from spark_jobs.io import datasets, folders
from spark_jobs.io import snapshots as stored
from spark_jobs.io.choice import Check, Chosen, intact, placed
from spark_jobs.io.delivery import deliver, withdraw
from spark_jobs.io.errors import DatasetError
from spark_jobs.io.snapshots import HISTORY, Problem
from spark_jobs.io.submitter import end_with_submitter
from spark_jobs.report import build as report
from spark_jobs.report import content, numbers
from spark_jobs.results import Output, Results
from spark_jobs.settings import SettingsError

DONE, BAD_INPUT, INCOMPLETE = 0, 2, 4
_PLANS, _PAGES = "plans", "clusters"
_PLAN_FILES = ("plan", "rollback", "certificate")
_PLAN_ENDS = tuple(f".{kind}.json" for kind in _PLAN_FILES)
_WRITERS = 2
Say = Callable[[str], None]


def run(spark: SparkSession, args: Args, say: Say) -> int:
    """Analyses one date; returns the exit status.

    Raises:
        DatasetError: there is nothing to analyse.
    """
    snapshots, unreadable = stored.find_snapshots(spark, args.inputs, tables=())
    problems = [*unreadable, *args.problems]

    def choose(check: Check) -> tuple[Chosen, list[Problem]]:
        chosen, damaged = intact(spark, snapshots, args.date, args.history_days, check)
        found = [placed(problem, chosen, args.date) for problem in (*problems, *damaged)]
        if chosen.current or any(problem.stage != HISTORY for problem in found):
            return chosen, found
        dates = sorted({snapshot.date for snapshot in snapshots})
        raise DatasetError(
            f"date {args.date} not analysed: expected a snapshot of it in {list(args.inputs)!r}, found {len(snapshots)} "
            f"of the dates {dates!r} and {len(found)} of other dates that cannot be read; name one of them, or the "
            "folder that holds the snapshots"
        )

    chosen, found = choose(Check(hashes=not args.verified))
    try:
        return _analysed(spark, args, chosen, found, say)
    except (PySparkException, Py4JJavaError):
        sound, found_again = choose(Check(hashes=True, decode=True))
        if sound == chosen:  # no file is to blame
            raise
        say("a file cannot be read: its snapshot is left out, and the others are analysed from the beginning")
        return _analysed(spark, args, sound, found_again, say)


def _analysed(spark: SparkSession, args: Args, chosen: Chosen, problems: Sequence[Problem], say: Say) -> int:
    """Makes and writes the results that are wanted, and the report; returns the exit status.

    Raises:
        DatasetError: somebody removed or replaced results: they would be published as none, and a sick cluster as a healthy one.
    """
    results = Results(spark, chosen, args, problems)
    past = len(chosen.window) + len(args.compact.snapshots)
    say(
        f"{counted(len(chosen.current), 'cluster')}, {counted(past, 'snapshot')} in the history, {len(problems)} unreadable"
    )
    place = folders.folder(spark, args.output)
    withdraw(place)
    _remove(place, _PAGES, (".md", ".html"))
    if args.wants("proposals"):
        _remove(place, _PLANS, _PLAN_ENDS)
    made = {}
    try:
        for name, seconds in _write(results.outputs(), args, place.uri):
            say(f"{name}: {seconds:.1f} s")
            made[name] = _parts(place, name)
    finally:
        results.release()
    if "proposals" in made:
        _write_plans(place)
    page = content.read(
        place,
        list(made),
        run=args.run,
        day=args.date,
        snapshots=results.analysed,
        goals=args.goals,
        changed=args.changed,
    )
    pages = {
        "report.md": report.markdown(page),
        "report.html": report.html(page),
        "summary.json": json.dumps(numbers.summary(page), indent=1, sort_keys=True),
        **dict(report.cluster_pages(page)),
    }
    for name, text in pages.items():
        place.write(name, text.encode())
    plans = place.names(_PLANS) if "proposals" in made else []
    if changed := [table for table, parts in made.items() if not parts or parts != _parts(place, table)]:
        raise DatasetError(
            f"results not delivered: expected in {args.output} the files that this job has written, found those of {changed} removed or "
            "replaced, by a later try of this run or another job with the same output; run it again, with an output of its own"
        )
    tables = [part for parts in made.values() for part in parts]
    deliver(place, [*pages, *tables, *(name for name in plans if name.endswith(_PLAN_ENDS))])
    say(f"report: {args.output}/report.html; not analysed: {len(page.of('not_analysed'))}")
    incomplete = any(row["stage"] != HISTORY for row in page.of("not_analysed"))
    return INCOMPLETE if args.fail_if_incomplete and incomplete else DONE


def _parts(place: folders.Folder, table: str) -> list[str]:
    """The files of a result that lie there now."""
    return sorted(name for name in place.names(table) if name.endswith(".parquet"))


def _remove(place: folders.Folder, name: str, ends: tuple[str, ...]) -> None:
    """What an earlier job wrote below `name`; other files there are somebody else's."""
    for path in place.names(name):
        if path.endswith(ends):
            place.remove(path)


def _write_plans(place: folders.Folder) -> None:
    """The files of each proposed plan, for Kafka's own tool; one cluster's at a time are in memory."""
    for row in place.each("proposals", ("cluster", *_PLAN_FILES), at_once=1):
        for kind in _PLAN_FILES if row["plan"] else ():
            place.write(f"{_PLANS}/{row['cluster']}.{kind}.json", row[kind].encode())


def _write(outputs: Iterable[Output], args: Args, output: str) -> Iterator[tuple[str, float]]:
    """Writes the results that are wanted; yields each one's name and seconds, in order.

    The next one is described while the ones before are run. What several of them persist is still computed once.
    """

    def write(name: str, frame: DataFrame) -> float:
        started = time.monotonic()
        datasets.write_result(frame, output, name, files=args.files)
        return time.monotonic() - started

    with ThreadPoolExecutor(_WRITERS) as writers:
        running = [(name, writers.submit(write, name, described())) for name, described in outputs if args.wants(name)]
        for name, seconds in running:
            yield name, seconds.result()


def main(argv: Sequence[str], only: Sequence[str] = ()) -> int:
    """The job as a program; `only` names the results of a job that makes some of them."""

    def say(line: str) -> None:
        sys.stdout.write(f"nightly_analysis: {line}\n")
        sys.stdout.flush()

    try:
        args = parse([*argv, *(["--only", *only] if only else [])], __doc__)
        end_with_submitter()
        spark = datasets.session("nightly_analysis")
        try:
            return run(spark, args, say)
        finally:
            spark.stop()
    except (DatasetError, SettingsError, ValueError) as error:
        sys.stderr.write(f"nightly_analysis: {error}\n")
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
