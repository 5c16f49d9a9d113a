"""The command as a process: its outputs, the signals that end it, and its exit status."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from kafka_maintenance import __version__
from kafka_maintenance.demo.sample_history import RECORDED
from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.servers.workspace import read_records, running
from tests.kafka_maintenance.cli.commands import TIMEOUT_S

LIST = "snapshots", "list", "--store", str(RECORDED)


def program(*words, output=subprocess.PIPE, closed="", **environment):
    """The program in a process of its own; `closed` is an output that it does not get."""
    line = shlex.join([sys.executable, "-m", "kafka_maintenance", *words])
    return subprocess.run(
        ["bash", "-c", f"{line} {closed}"], stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


@pytest.mark.parametrize("words", [LIST, (*LIST, "--json"), ("--help",)], ids=["text", "json", "help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_without_room_is_an_error_in_one_line(words, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = program(*words, output=full, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (
        3,
        "kafka-maintenance: result not written to standard output: No space left on device; make room, or let it go elsewhere, and run again\n",
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("action", "status"), [("check", 0), ("nosuch", 2)])
def test_a_log_on_a_full_disk_ends_no_command_and_changes_no_status(action, status, unbuffered):
    """`check` tells on standard error what it reads; an `apply` that ended there would leave its step."""
    done = program("snapshots", action, "--store", str(RECORDED), closed="2>/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, "nothing is wrong" in done.stdout) == (status, status == 0)


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_an_output_that_is_closed_drops_what_is_printed(closed):
    done = program(*LIST, closed=closed)
    assert (done.returncode, done.stderr, bool(done.stdout)) == (0, "", closed == "2>&-")


def test_a_character_that_the_encoding_of_the_output_lacks_is_printed_as_its_escape():
    done = program("snapshot", "--help", PYTHONIOENCODING="ascii")
    assert (done.returncode, "HOST:PORT,\\u2026" in done.stdout) == (0, True)


@pytest.fixture(autouse=True)
def signals_are_heard():
    """Where the tests run in the background or by `nohup`, SIGINT or SIGHUP is ignored by each process that they start, too."""
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGHUP)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


WHILE_LOADED = """import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == 'kafka_maintenance.cli.main': os.kill(os.getpid(), signal.{0})
sys.meta_path.insert(0, Interrupt())
sys.argv = ['kafka-maintenance', '--version']
from kafka_maintenance.__main__ import run
run()
"""


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("SIGINT", 130, "kafka-maintenance: interrupted\n"),
        ("SIGTERM", 143, "kafka-maintenance: interrupted by SIGTERM\n"),
        ("SIGHUP", 129, "kafka-maintenance: interrupted by SIGHUP\n"),
    ],
)
def test_an_interrupt_while_modules_are_loaded_is_quiet(name, status, said):
    code = [sys.executable, "-c", WHILE_LOADED.format(name)]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)


def test_a_command_that_nohup_started_outlives_its_terminal():
    code = ["nohup", sys.executable, "-c", WHILE_LOADED.format("SIGHUP")]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout) == (0, f"kafka-maintenance {__version__}\n")


@pytest.mark.services
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_drill_that_a_signal_ends_leaves_no_server_and_no_data(tmp_path, number):
    """Its ZooKeeper has a session of its own: nothing else would end it."""
    words = ("drill", "--cluster", "sample-history", "--store", str(RECORDED))
    with subprocess.Popen(
        [sys.executable, "-m", "kafka_maintenance", *words], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
    ) as drill:  # fmt: skip
        own = tmp_path / f"kafka-maintenance-{os.getuid()}"
        wait_until(lambda: any(own.glob("w*/processes.json")), what="its ZooKeeper is started", timeout_s=TIMEOUT_S)
        (started,) = own.glob("w*/processes.json")
        (server,) = read_records(started.parent)
        while drill.poll() is None:  # a terminal that closes sends two of them
            drill.send_signal(number)
            sleep(0.05)
        told = drill.stderr.read()
    assert (drill.returncode, told) == (128 + number, f"kafka-maintenance: interrupted by {number.name}\n")
    assert (running(server), list(own.glob("w*"))) == (False, [])


def test_a_library_that_aborts_at_the_end_of_the_process_does_not_change_its_status() -> None:
    """What Python itself does at its end is done; `python -m tests.blame_runs` counts how real runs end."""
    program = (
        "import atexit, ctypes, sys\n"
        "from kafka_maintenance.cli.main import run\n"
        "library = ctypes.CDLL(None)\n"
        "getattr(library, '__cxa_atexit')(ctypes.cast(library.abort, ctypes.c_void_p), None, None)\n"
        "atexit.register(print, 'as atexit knows')\n"
        "sys.argv = ['kafka-maintenance', 'no-such-command']\n"
    )
    aborted = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert aborted.returncode == -signal.SIGABRT
    ended = subprocess.run([sys.executable, "-c", f"{program}run()"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "as atexit knows\n")
    assert "no-such-command" in ended.stderr
