"""What the command does when whoever reads its output has enough of it."""

import os
import sys
from itertools import count

from kafka_maintenance.cli.main import main
from kafka_maintenance.cli.output import StandardOutput
from kafka_maintenance.operations.kraft import watch
from spark_jobs.kraft.phase import phase_of
from tests.kafka_maintenance.operations.kraft.trees import tree


def test_a_watch_prints_each_judgement_at_once_and_ends_when_its_reader_has_left(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    read = []

    def judged(*_):
        for number in count():
            yield watch.Judgement(phase_of(tree()), watch.Advice.WAIT, f"step {number}", ())
            assert number < 2, "it goes on for nobody"
            read.append(os.read(reader, 100)[:13])
            if number:
                os.close(reader)

    monkeypatch.setattr(watch, "watch", judged)
    with StandardOutput(os.fdopen(writer, "wb")) as output:
        monkeypatch.setattr(sys, "stdout", output)
        status = main(["kraft", "watch", "--follow", "--zookeeper", "127.0.0.1:1"])
        monkeypatch.undo()
    assert (status, read) == (4, [b"WAIT: step 0\n", b"WAIT: step 1\n"])
