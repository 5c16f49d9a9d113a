"""Jobs run by the plain `spark-submit` that their documentation shows, word for word, in a folder of their own.

Two of them in a JVM of their own; the others as spark-submit runs a program, in the session of the tests.
"""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_maintenance.demo.sample_history import DAYS, RECORDED
from kafka_maintenance.spark.submit import FEW_CONF, LEAN_CONF, QUICK_JAVA, package_zip, recorded_classes
from spark_jobs import failure_drill, history, kraft_readiness, query, schemas
from tests.source_files import ROOT

NAMES = {"FOLDER…": str(RECORDED), "STORE/v1": str(RECORDED / "v1"), "RUN": "by-hand"}
DATES = ("YYYY-MM-DD", "2026-11-20")

pytestmark = pytest.mark.spark


def documented(text, folder, **files):
    """The first spark-submit in `text`, without its optional arguments, as it is given in `folder`; `files` stand for the words `FILE`, in order."""
    shown = re.search(r"^ +spark-submit (?:[^\n]*\\\n)*[^\n]*", text, re.MULTILINE).group()
    words = shlex.split(re.sub(r"\[--[^\]]*\]", "", shown.replace("\\\n", " ")))
    archive, given = package_zip(folder).name, iter(files.values())
    command = []
    for word in words:
        match word:
            case "spark-submit":
                command.append(str(Path(sys.executable).parent / word))
            case _ if word.endswith(".zip"):
                command.append(archive)
            case _ if word.startswith("spark_jobs/"):
                command.append(str(ROOT / word))
            case "FILE":
                command.append(str(next(given)))
            case _ if word in DATES:
                command.append(str(DAYS[-1]))
            case _:
                command.append(NAMES.get(word, word))
    return command


def run(command, folder):
    """Runs it as a process."""
    # An installation's own defaults; these suit few rows. A folder of settings would stand on the class path, and then the
    # recorded classes are none of that JVM.
    defaults = " ".join(f"-D{key}={value}" for key, value in {**FEW_CONF, **LEAN_CONF}.items())
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} {recorded_classes()} {defaults}",
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def tables(folder):
    """Names of the results that hold rows or at least columns."""
    return {path.parent.name for path in folder.glob("*/*.parquet")}


def test_the_nightly_analysis(tmp_path):
    run(documented((ROOT / "docs" / "analysis.md").read_text(encoding="utf-8"), tmp_path), tmp_path)
    out = tmp_path / "OUT"
    assert tables(out) == set(schemas.OUTPUTS)
    assert json.loads((out / "summary.json").read_text())["clusters"]["sample-history"]["partition_count"] > 0


@pytest.mark.parametrize(
    "job", [failure_drill, history, kraft_readiness], ids=lambda job: job.__name__.rpartition(".")[2]
)
def test_a_part_of_it(submitted_here, job, tmp_path, monkeypatch):
    submit, option, archive, program, *arguments = documented(job.__doc__, tmp_path)
    assert (Path(submit).name, option) == ("spark-submit", "--py-files")
    assert [path.name for path in tmp_path.glob("*.zip")] == [archive]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program, run_name="__main__")
    assert ended.value.code == 0
    out = tmp_path / "FOLDER"
    assert tables(out) == set(job.RESULTS)
    assert all(pq.read_table(out / name).num_rows for name in job.RESULTS if name != "not_analysed")
    assert (out / "report.html").is_file()


def test_query(tmp_path):
    sql, output = tmp_path / "query.sql", tmp_path / "out.json"
    sql.write_text("SELECT count(DISTINCT date) FROM snapshots")
    run(documented(query.__doc__, tmp_path, sql=sql, output=output), tmp_path)
    assert json.loads(output.read_text())["rows"] == [[len(DAYS)]]
