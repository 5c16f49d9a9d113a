"""The Java runtime that ZooKeeper, the brokers and Spark need: found, or a message that says what to install.

Spark 4.3 needs Java 17 or newer with the module jdk.incubator.vector, which trimmed runtimes lack.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kafka_maintenance.servers.errors import JavaMissingError

JAVA_VERSION_MIN = 17
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a program that runs for seconds, or a server of little: half the CPU time; a small ZooKeeper from its start to its stop 0.42 for 0.55 s."""
QUIET_SERVER = ("-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")
"""For each server: it keeps no counters in a file of the machine, and listens where its loopback address says."""
FOLDERS = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
)
"""Homes of Java, as distributions, macOS and Homebrew name them; `.ci/java`, which runs before there is a Python, looks there too."""
INSTALL_HINT = (
    "install one: `sudo apt-get install openjdk-17-jre-headless` (Debian, Ubuntu; Debian 13: `openjdk-21-jre-headless`),"
    " `sudo dnf install java-21-openjdk-headless` (Fedora), `brew install openjdk@21` (macOS);"
    " or set JAVA_HOME to the folder of an installed one"
)
"""`.ci/require` says the same."""


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java runtime: the program and its major version."""

    program: Path
    version: int


def find_java(env: Mapping[str, str] | None = None) -> Java:
    """The Java of JAVA_HOME, else of PATH, else the newest of `FOLDERS`: the first that is 17 or newer.

    Args:
        env: the environment to look in; None for that of this process.

    Raises:
        JavaMissingError: there is none, it does not run, or it is older; says what to install.
    """
    environment = os.environ if env is None else env
    home, on_path = environment.get("JAVA_HOME"), shutil.which("java", path=environment.get("PATH", ""))
    named = {f"JAVA_HOME={home}": str(Path(home) / "bin" / "java")} if home else {}
    refused: list[JavaMissingError] = []
    for place, program in (named | {"PATH": on_path or ""}).items():
        try:
            return _usable(program, place)
        except JavaMissingError as error:
            refused.append(error)
    homes = [home for pattern in FOLDERS for home in sorted(Path("/").glob(pattern.removeprefix("/")))]
    lying = [java for home in homes if (java := _lying_in(home))]
    if not lying:
        raise refused[0]
    return max(lying, key=lambda java: java.version)


def _lying_in(home: Path) -> Java | None:
    with suppress(JavaMissingError):
        return _usable(str(home / "bin" / "java"), str(home))
    return None


def _usable(program: str, place: str) -> Java:
    wanted = f"looking for Java {JAVA_VERSION_MIN} or newer in {place}"
    if not Path(program).is_file():
        raise JavaMissingError(f"{wanted}: found no java program; {INSTALL_HINT}")
    version = _version(program, place)
    if version < JAVA_VERSION_MIN:
        raise JavaMissingError(f"{wanted}: found Java {version} ({program}); {INSTALL_HINT}")
    return Java(Path(program), version)


def major_version(version_text: str) -> int | None:
    """Major version in the output of `java -version`: 8 of "1.8.0_402", 17 of "17.0.15"; None when there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(match[1]) if match else None


@functools.cache
def _version(program: str, place: str) -> int:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"running `{program} -version` ({place}) failed: {error}; {INSTALL_HINT}") from error
    version = major_version(answer.stderr + answer.stdout)
    if answer.returncode or version is None:
        raise JavaMissingError(
            f"running `{program} -version` ({place}): expected a version, found status {answer.returncode} and"
            f" {(answer.stderr or answer.stdout)[:200]!r}; {INSTALL_HINT}"
        )
    return version
