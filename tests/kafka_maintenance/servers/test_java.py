"""Which Java is taken, and what is said of one that is missing, old or broken."""

from pathlib import Path

import pytest

from kafka_maintenance.servers.errors import JavaMissingError
from kafka_maintenance.servers.java import find_java, major_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="today's form"),
        pytest.param('java version "1.8.0_402"', 8, id="the form before Java 9"),
        pytest.param('openjdk version "25" 2025-09-16', 25, id="no minor version"),
        pytest.param("segmentation fault", None, id="no version at all"),
    ],
)
def test_java_version(text, version):
    assert major_version(text) == version


def fake_java(folder: Path, script: str) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(folder)


def test_no_java_says_what_to_install(tmp_path):
    with pytest.raises(JavaMissingError, match=r"apt-get install openjdk-17-jre-headless.*dnf install.*brew install"):
        find_java({"PATH": str(tmp_path)})


def test_an_old_java_is_refused(tmp_path):
    home = fake_java(tmp_path, "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME=.*found Java 11 .*apt-get install"):
        find_java({"JAVA_HOME": home, "PATH": ""})


def test_a_broken_java_is_refused(tmp_path):
    home = fake_java(tmp_path, "echo 'cannot load libjvm' >&2; exit 1")
    with pytest.raises(JavaMissingError, match=r"expected a version, found status 1 .*cannot load libjvm"):
        find_java({"JAVA_HOME": home, "PATH": ""})
