"""Which Java is taken, and what is said of one that is missing, old or broken."""

import re
from pathlib import Path

import pytest

from kafka_maintenance.servers import java
from kafka_maintenance.servers.errors import JavaMissingError
from kafka_maintenance.servers.java import FOLDERS, find_java, major_version
from tests.source_files import text


@pytest.mark.parametrize(
    ("said", "version"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="today's form"),
        pytest.param('java version "1.8.0_402"', 8, id="the form before Java 9"),
        pytest.param('openjdk version "25" 2025-09-16', 25, id="no minor version"),
        pytest.param("segmentation fault", None, id="no version at all"),
    ],
)
def test_java_version(said, version):
    assert major_version(said) == version


def fake_java(folder: Path, script: str) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(folder)


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    """No Java of this machine is found by chance; the folder in which one may lie."""
    monkeypatch.setattr(java, "FOLDERS", (f"{tmp_path}/jvm/*",))
    return tmp_path / "jvm"


def of_version(folder, version):
    return fake_java(folder, f"""echo 'openjdk version "{version}.0.2"' >&2""")


@pytest.mark.parametrize(
    ("home", "on_path", "taken"),
    [
        pytest.param(17, 21, 17, id="JAVA_HOME's, where it is new enough"),
        pytest.param(11, 17, 17, id="else that of the PATH"),
        pytest.param(None, 17, 17, id="that of the PATH, though a newer one lies about"),
        pytest.param(11, 11, 25, id="else the newest that lies about"),
        pytest.param(None, None, 25, id="nothing is named"),
    ],
)
def test_the_first_java_that_is_new_enough_is_taken(tmp_path, folders, home, on_path, taken):
    for version in (8, 21, 25, 17):
        of_version(folders / f"java-{version}", version)
    fake_java(folders / "java-99", "exit 1")
    named = {"JAVA_HOME": of_version(tmp_path / "home", home)} if home else {}
    path = f"{of_version(tmp_path / 'path', on_path)}/bin" if on_path else ""
    assert find_java({**named, "PATH": path}).version == taken


def test_the_scripts_before_the_installation_look_in_the_same_folders_and_name_the_same_packages():
    assert f"for each in {' '.join(FOLDERS)}; do" in text(".ci/java")
    packages = re.compile(r"\b(?:openjdk-\d+-[\w-]+|java-\d+-[\w-]+|openjdk@\d+)")
    assert packages.findall(text(".ci/require")) == packages.findall(java.INSTALL_HINT) != []


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
