"""Records the classes that Spark loads, so that the JVM of a job on a local master starts in half the time.

    python -m kafka_maintenance.spark.class_archive

A JVM spends most of a job's first seconds on finding and checking classes in PySpark's jars. `record` runs
`spark_jobs/rehearsal.py` once and keeps what the JVM loaded as a class data archive (190 MB) in the Python environment;
`submit_arguments` names it to every job from then on. An archive fits one Java and one installation of PySpark: after an upgrade
of either the JVM passes over it, and jobs run as without one until the classes are recorded again.

Source: Java's class data sharing, option `-XX:ArchiveClassesAtExit`.
"""

import sys
import tempfile
from pathlib import Path

from kafka_maintenance.spark.submit import (
    JAVA_OPTIONS,
    QUICK_JAVA,
    SparkJobError,
    SparkSettings,
    class_data_archive,
    run_job,
    submit_arguments,
)

REHEARSAL = "rehearsal"


def record() -> Path:
    """Makes the archive, or makes it again; jobs that run meanwhile are not disturbed.

    Raises:
        SparkJobError: the rehearsal failed, or Java wrote no archive.
        OSError: the environment's folder cannot be written; record as its owner.
    """
    archive = class_data_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        folder = Path(scratch)
        written, log = folder / "classes.jsa", folder / "log"
        settings = SparkSettings(conf={JAVA_OPTIONS: f'{QUICK_JAVA} -XX:ArchiveClassesAtExit="{written}"'})
        given = ["--output", str(folder / "tables")]
        run_job(submit_arguments(REHEARSAL, given, work_folder=folder / "work", settings=settings, row_count=0), log)
        if not written.is_file():
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise SparkJobError(
                f"classes of Spark not recorded: expected Java to write an archive, found none; jobs run without it. Java said:\n{last}"
            )
        written.replace(archive)
    return archive


if __name__ == "__main__":
    try:
        print(record())  # noqa: T201 - what the command answers
    except (SparkJobError, OSError) as error:
        sys.exit(str(error))
