"""`make` and the scripts in `.ci` on machines that lack something: what is said, and what goes on all the same."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kafka_maintenance import __version__
from tests.source_files import ROOT


@pytest.fixture
def checkout(tmp_path):
    """The parts of a checkout that `make` needs, without an environment."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.txt", "requirements-dev.txt", "requirements-uv.txt"):
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
    done = run(ROOT / ".ci" / "require", sys.executable, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    for words in (
        "with the modules venv and ensurepip",
        "sudo apt-get install python3 python3-venv (Ubuntu 22.04: python3.11 python3.11-venv)",
        "sudo dnf",
        "brew install",
    ):
        assert words in done.stderr
    assert run(ROOT / ".ci" / "require", sys.executable).stdout == f"{sys.executable}\n"


def java_of(home: Path, version: int) -> str:
    program(home / "bin" / "java", f"""echo 'openjdk version "{version}.0.2"' >&2""")
    return str(home)


@pytest.fixture
def javas(checkout):
    """Where this checkout looks for a Java that nobody named."""
    script = checkout / ".ci" / "java"
    script.write_text(script.read_text().replace("/usr/lib/jvm/*", f"{checkout}/jvm/*"))
    return checkout / "jvm"


@pytest.mark.parametrize(
    ("home", "on_path", "taken"),
    [
        pytest.param(17, 21, "home", id="JAVA_HOME's, where it is new enough"),
        pytest.param(11, 17, "", id="else that of the PATH"),
        pytest.param(11, 11, "jvm/java-99", id="else the newest that lies about"),
    ],
)
def test_make_hands_on_the_first_java_that_is_new_enough(checkout, javas, home, on_path, taken):
    for version in (8, 99, 25):
        java_of(javas / f"java-{version}", version)
    (checkout / "Makefile").open("a").write("\njava:\n\t@echo $$JAVA_HOME\n")
    named = {
        "JAVA_HOME": java_of(checkout / "home", home),
        "PATH": f"{java_of(checkout / 'path', on_path)}/bin:/usr/bin:/bin",
    }
    assert run("make", "-C", checkout, "java", "--no-print-directory", **named).stdout.strip() == (
        str(checkout / taken) if taken else ""
    )
    said = run(checkout / ".ci" / "require", sys.executable, **named).stderr
    assert f"using Java {99 if 'jvm' in taken else 17} (" in said


def test_a_java_that_is_too_old_gets_the_command_for_a_newer_one(checkout, javas, tmp_path):
    old = java_of(tmp_path / "old", 11)
    done = run(checkout / ".ci" / "require", sys.executable, JAVA_HOME=old, PATH=f"{old}/bin:/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (1, "")
    for words in (
        "need Java 17 or newer",
        f"expected one as {old}/bin/java, found Java 11",
        "sudo apt-get install openjdk-17",
        "sudo dnf",
        "brew install",
    ):
        assert words in done.stderr


OF_VERSION = 'case "$*" in *"!= (3, {})"*) exit 0 ;; esac; exit 1'
"""A Python that answers as `.ci/python` asks for the version."""


def test_the_newest_python_that_works_is_taken(tmp_path):
    for minor, script in ((14, OF_VERSION), (13, "exit 127"), (12, OF_VERSION), (11, OF_VERSION)):
        program(tmp_path / f"python3.{minor}", script.format(minor))
    found = run(ROOT / ".ci" / "python", PATH=f"{tmp_path}:/usr/bin:/bin").stdout.split()
    assert found == [str(tmp_path / "python3.12"), str(tmp_path / "python3.11")]


def test_of_one_version_pyenvs_comes_last(tmp_path):
    for tool in ("bash", "grep", "paste", "tr"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    pyenv = program(tmp_path / "pyenv" / "shims" / "python3.12", OF_VERSION.format(12))
    other = program(tmp_path / "a folder" / "python3.12", OF_VERSION.format(12))
    where = {"PYENV_ROOT": str(tmp_path / "pyenv"), "PATH": f"{pyenv.parent}:{other.parent}:{tmp_path}"}
    assert run(ROOT / ".ci" / "python", **where).stdout == f"{other}\n"
    other.unlink()
    assert run(ROOT / ".ci" / "python", **where).stdout == f"{pyenv}\n"


# ----------------------------------------------------------------------------------------------------- make dist


def test_the_wheel_holds_every_file_of_the_packages_and_of_airflow(tmp_path):
    sources = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in sources:
        if not name.startswith("tests/"):
            (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "source" / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path / "dist"]
    built = run(*pip, tmp_path / "source")
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").glob(f"kafka_maintenance-{__version__}-*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for name in sources:
        if name.startswith(("controller_core/", "spark_jobs/", "plugins/kafka_maintenance/")):
            assert name.removeprefix("plugins/") in inside
        elif name.startswith("dags/"):
            assert f"kafka_maintenance/{name}" in inside


@pytest.mark.parametrize(
    ("file", "environment", "index"),
    [
        pytest.param("", {}, "", id="PyPI"),
        pytest.param("[global]\nindex-url = https://a.test/simple", {}, "https://a.test/simple", id="a file of pip"),
        pytest.param("", {"PIP_INDEX_URL": "https://b.test"}, "https://b.test", id="pip's variable"),
        pytest.param(
            "",
            {"PIP_INDEX_URL": "https://b.test", "UV_DEFAULT_INDEX": "https://c.test"},
            "https://c.test",
            id="uv's variable",
        ),
    ],
)
def test_the_index_is_the_one_that_pip_is_told_of(tmp_path, file, environment, index):
    (tmp_path / "pip.conf").write_text(file)
    told = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_INDEX_URL": "", "UV_DEFAULT_INDEX": "", **environment}
    without_pip = program(tmp_path / "python", "echo no module named pip >&2; exit 1")
    done = run(ROOT / ".ci" / "index", without_pip, sys.executable, **told)
    assert (done.stdout.strip(), done.returncode) == (index, 0)


# ------------------------------------------------------------------------------------- the browser of `make test`

CHROMIUM = 'echo "#!/bin/sh" > "${0%/*}/$name" && /bin/chmod +x "${0%/*}/$name"'


@pytest.mark.parametrize(
    ("apt_get", "asked", "hint"),
    [
        pytest.param(
            "exit 100", ["update", "chromium-headless-shell", "chromium", "chromium-browser"], True, id="no network"
        ),
        pytest.param(
            f'test "$2" != update || exit 100; name=chromium-headless-shell; {CHROMIUM}',
            ["update", "chromium-headless-shell"],
            False,
            id="only the lists cannot be fetched",
        ),
        pytest.param(
            f'for name; do :; done; test "$name" = chromium || exit 100; {CHROMIUM}',
            ["update", "chromium-headless-shell", "chromium"],
            False,
            id="a Debian that has it with windows only",
        ),
        pytest.param(
            f'for name; do :; done; test "$name" = chromium-browser || exit 100; {CHROMIUM}',
            ["update", "chromium-headless-shell", "chromium", "chromium-browser"],
            False,
            id="an Ubuntu that names it otherwise",
        ),
        pytest.param(
            "exit 0",
            ["update", "chromium-headless-shell", "chromium", "chromium-browser"],
            True,
            id="a package without a program",
        ),
    ],
)
def test_a_browser_is_installed_or_a_hint_is_given(tmp_path, apt_get, asked, hint):
    log = tmp_path / "asked"
    program(tmp_path / "bin" / "id", "echo 0")
    program(tmp_path / "bin" / "apt-get", f'for last; do :; done; echo "$last" >> {log}\n{apt_get}')
    done = run(shutil.which("bash"), ROOT / ".ci" / "browser", PATH=str(tmp_path / "bin"))
    assert done.returncode == 0
    assert log.read_text().split() == asked
    assert ("the browser tests will fail; install it" in done.stderr) == hint


def test_without_leave_to_install_a_hint_is_given(tmp_path):
    program(tmp_path / "bin" / "id", "echo 1000")
    program(tmp_path / "bin" / "sudo", "exit 1")
    program(tmp_path / "bin" / "apt-get", f"touch {tmp_path / 'asked'}")
    done = run(shutil.which("bash"), ROOT / ".ci" / "browser", PATH=str(tmp_path / "bin"))
    assert (done.returncode, (tmp_path / "asked").exists()) == (0, False)
    assert "the browser tests will fail; install it" in done.stderr
