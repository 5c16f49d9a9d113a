"""`make` and the scripts in `.ci` on machines that lack something: what is said, and what goes on all the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path):
    """The parts of a checkout that `make` needs, without an environment."""
    shutil.copytree(REPOSITORY / ".ci", tmp_path / ".ci")
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / name).touch()
    return tmp_path


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def run(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment | env, timeout=60
    )


def recorded(checkout: Path) -> Path:
    """The records of a stack, as if its processes ran."""
    records = checkout / ".local" / "stack" / "processes.json"
    records.parent.mkdir(parents=True)
    records.touch()
    return records


# ---------------------------------------------------------------------------------------------------- make clean


@pytest.mark.parametrize(
    ("python", "told"),
    [
        pytest.param("exit 3", "stack down failed", id="a stack that cannot be stopped"),
        pytest.param(None, "there is no .venv/bin/python", id="no Python to stop it with"),
    ],
)
def test_clean_keeps_the_records_of_what_may_run(checkout, python, told):
    records = recorded(checkout)
    if python:
        program(checkout / ".venv" / "bin" / "python", python)
    done = run("make", "-C", checkout, "clean")
    assert (done.returncode, records.exists()) == (2, True)
    assert f"nothing removed. Expected the local stack in .local/stack to be stopped first, but {told}" in done.stderr


def test_clean_removes_everything_after_the_stack_was_stopped(checkout):
    recorded(checkout)
    program(checkout / ".venv" / "bin" / "python", 'test "$*" = "-m kafka_maintenance stack down"')
    assert run("make", "-C", checkout, "clean").returncode == 0
    assert [name for name in (".local", ".venv") if (checkout / name).exists()] == []


@pytest.mark.parametrize("python", [pytest.param("exit 3", id="broken"), pytest.param(None, id="absent")])
def test_clean_needs_no_python_where_no_stack_was(checkout, python):
    (checkout / ".local").mkdir()
    if python:
        program(checkout / ".venv" / "bin" / "python", python)
    assert run("make", "-C", checkout, "clean").returncode == 0
    assert not (checkout / ".local").exists()


# ---------------------------------------------------------------------------------------------------- make setup

PYTHON_WITHOUT_ARCHIVE = """
case "$*" in
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/pip ;;
  *class_archive*) echo "no archive: this Java shares no classes" >&2; exit 1 ;;
esac
"""


def test_setup_goes_on_where_the_classes_of_spark_cannot_be_recorded(checkout, tmp_path):
    python = program(tmp_path / "python3.11", PYTHON_WITHOUT_ARCHIVE)
    done = run("make", "-C", checkout, "setup", f"PYTHON={python}")
    assert (done.returncode, (checkout / ".venv" / ".installed").exists()) == (0, True)
    assert "this Java shares no classes\nmake: the classes of Spark are not recorded" in done.stderr


def test_a_python_without_ensurepip_is_told_before_anything_is_installed(tmp_path):
    (tmp_path / "ensurepip.py").write_text("raise ModuleNotFoundError('as Debian ships it')")
    done = run(REPOSITORY / ".ci" / "require", sys.executable, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "sudo apt-get install python3.11-venv" in done.stderr
    assert run(REPOSITORY / ".ci" / "require", sys.executable).returncode == 0


# ------------------------------------------------------------------------------------- the browser of `make test`

CHROMIUM = 'echo "#!/bin/sh" > "${0%/*}/$name" && /bin/chmod +x "${0%/*}/$name"'


@pytest.mark.parametrize(
    ("apt_get", "asked", "hint"),
    [
        pytest.param("exit 100", ["update", "chromium", "chromium-browser"], True, id="no network"),
        pytest.param(
            f'test "$2" != update || exit 100; name=chromium; {CHROMIUM}',
            ["update", "chromium"],
            False,
            id="only the lists cannot be fetched",
        ),
        pytest.param(
            f'for name; do :; done; test "$name" = chromium-browser || exit 100; {CHROMIUM}',
            ["update", "chromium", "chromium-browser"],
            False,
            id="an Ubuntu that names it otherwise",
        ),
        pytest.param("exit 0", ["update", "chromium", "chromium-browser"], True, id="a package without a program"),
    ],
)
def test_a_browser_is_installed_or_a_hint_is_given(tmp_path, apt_get, asked, hint):
    log = tmp_path / "asked"
    program(tmp_path / "bin" / "id", "echo 0")
    program(tmp_path / "bin" / "apt-get", f'for last; do :; done; echo "$last" >> {log}\n{apt_get}')
    done = run(shutil.which("bash"), REPOSITORY / ".ci" / "browser", PATH=str(tmp_path / "bin"))
    assert done.returncode == 0
    assert log.read_text().split() == asked
    assert ("the browser tests will fail; install it" in done.stderr) == hint


def test_without_leave_to_install_a_hint_is_given(tmp_path):
    program(tmp_path / "bin" / "id", "echo 1000")
    program(tmp_path / "bin" / "sudo", "exit 1")
    program(tmp_path / "bin" / "apt-get", f"touch {tmp_path / 'asked'}")
    done = run(shutil.which("bash"), REPOSITORY / ".ci" / "browser", PATH=str(tmp_path / "bin"))
    assert (done.returncode, (tmp_path / "asked").exists()) == (0, False)
    assert "the browser tests will fail; install it" in done.stderr
