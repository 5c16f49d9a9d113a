"""What a person at a terminal sees, and that a pipe sees none of it: run on a real pseudo-terminal."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.cli import progress
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.cli.terminal import printable
from kafka_maintenance.demo.sample_history import RECORDED
from tests.kafka_maintenance.web.fleet import Sick, publish_date

ESCAPE = "\x1b["
BAR = re.compile(r"\x1b\[\?25l.*\x1b\[2K", re.DOTALL)  # hides the cursor, draws, and takes itself away
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    publish_date(open_store(str(folder)), (Sick("calm"), Sick("broken", critical=2)), 0)
    return str(folder)


def on_terminal(*arguments, **environment):
    """What a command leaves on a terminal of 100 columns; a bar, which a busy machine shows, is gone at its end."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLORTERM"}}
    known = {**kept, "TERM": "xterm-256color", "COLUMNS": "100", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    read = []

    def drain():
        try:
            while data := os.read(ours, 65536):
                read.append(data)
        except OSError:  # Linux: the other side is closed
            return

    reader = threading.Thread(target=drain)
    with subprocess.Popen(
        [sys.executable, "-m", "kafka_maintenance", *arguments], stdout=theirs, stderr=theirs, env=known
    ) as process:
        os.close(theirs)
        reader.start()
        status = process.wait(TIMEOUT_S)
    reader.join(TIMEOUT_S)
    os.close(ours)
    return status, BAR.sub("", b"".join(read).decode())


def test_a_terminal_sees_a_coloured_table(store):
    status, said = on_terminal("status", "--store", store)
    assert status == 4
    assert f"{ESCAPE}1;31mcritical" in said
    assert "under-replicated" in said.splitlines()[0]


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        ("snapshots list", ["taken at (UTC)", "cluster", "snapshot", "topics", "partitions", "consistent", "pinned"]),
        ("snapshots ls newest /brokers/topics", ["version", "children", "bytes", "last write", "path"]),
        ("snapshots find newest */audit", ["version", "children", "bytes", "last write", "path"]),
        ("kraft fleet", ["cluster", "phase", "not met", "decide first", "judged until"]),
        ("query SELECT~1~AS~one,~2~AS~two --folder {folder}", ["one", "two"]),
    ],
)
def test_every_list_is_a_table_on_a_terminal(line, columns, tmp_path):
    words = [word.replace("~", " ") for word in line.format(folder=tmp_path).split()]
    _, said = on_terminal(*words, "--store", str(RECORDED))
    bold = re.findall(r"\x1b\[1m([^\x1b]+)\x1b", said.splitlines()[0])
    assert [each.strip() for each in bold if each.strip()] == columns


def test_without_colour_where_the_person_wants_none(store):
    _, said = on_terminal("status", "--store", store, NO_COLOR="1")
    assert COLOUR.search(said) is None
    assert "broken" in said


def test_help_is_coloured_on_a_terminal_and_plain_without(monkeypatch):
    assert COLOUR.search(on_terminal("status", "--help")[1])
    assert COLOUR.search(on_terminal("status", "--help", NO_COLOR="1")[1]) is None


def test_json_has_no_colour_anywhere(store):
    assert ESCAPE not in on_terminal("status", "--store", store, "--json")[1]


def test_a_pipe_sees_plain_lines(store):
    done = subprocess.run(
        [sys.executable, "-m", "kafka_maintenance", "status", "--store", store],
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ESCAPE not in done.stdout + done.stderr
    assert done.stdout.startswith("critical      broken")


def test_control_characters_do_not_reach_the_terminal():
    assert printable("or\x1b[2Jders\n") == "or\\x1b[2Jders\\n"
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"


def test_a_bar_moves_on_a_terminal():
    program = (
        "from kafka_maintenance.cli import progress\n"
        "progress.DELAY_S = 0\n"
        "with progress.Bars('reading') as bars:\n"
        "    bars._timer.join()\n"
        "    bars.show('tree', 5, 10, '5 znodes')\n"
        "    bars._drawn.refresh()\n"
    )
    ours, theirs = pty.openpty()
    known = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], stderr=theirs, env=known, check=False, timeout=TIMEOUT_S)
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "reading" in said
    assert "5 znodes" in said


def test_without_a_terminal_there_are_lines_and_not_too_many(capsys, monkeypatch):
    now = iter([7.0, 8.5, 9.0, 9.0, 9.5, 20.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with Bars() as bars:
        for count in (1, 2, 3, 4):
            bars.show("tree", count, note=f"{count} znodes")
    assert capsys.readouterr().err == "tree: 2 znodes\ntree: 4 znodes\n", (
        "none in the first two seconds, then one a second"
    )


def test_where_the_log_tells_it_there_are_no_lines(capsys):
    with Bars(lines=False) as bars:
        bars.show("step 1 of 2", 1, 2, "one")
    assert capsys.readouterr().err == ""
