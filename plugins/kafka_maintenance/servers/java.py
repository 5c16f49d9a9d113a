"""The Java runtime that ZooKeeper, the brokers and Spark need: found, or a message that says what to install.

Spark 4.3 needs Java 17 or newer with the module jdk.incubator.vector, which trimmed runtimes lack.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_maintenance.servers.errors import JavaMissingError

JAVA_VERSION_MIN = 17
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a program that runs for seconds, or a server of little: half the CPU time; a small ZooKeeper from its start to its stop 0.42 for 0.55 s."""
QUIET_SERVER = ("-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")
"""For each server: it keeps no counters in a file of the machine, and listens where its loopback address says."""
INSTALL_HINT = (
    "install one: `sudo apt-get install openjdk-17-jre-headless` (Debian, Ubuntu),"
    " `sudo dnf install java-17-openjdk-headless` (Fedora), `brew install openjdk@17` (macOS);"
    " or set JAVA_HOME to the folder of an installed one"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java runtime: the program and its major version."""

    program: Path
    version: int


def find_java(env: Mapping[str, str] | None = None) -> Java:
    """The Java of JAVA_HOME, else of PATH, if it is 17 or newer.

    Args:
        env: the environment to look in; None for that of this process.

    Raises:
        JavaMissingError: there is none, it does not run, or it is older; says what to install.
    """
    environment = os.environ if env is None else env
    home = environment.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH", ""))
    place = f"JAVA_HOME={home}" if home else "PATH"
    if found is None or not Path(found).exists():
        raise JavaMissingError(
            f"looking for Java {JAVA_VERSION_MIN} or newer in {place}: found no java program; {INSTALL_HINT}"
        )
    version = _version(found, place)
    if version < JAVA_VERSION_MIN:
        raise JavaMissingError(
            f"looking for Java {JAVA_VERSION_MIN} or newer in {place}: found Java {version} ({found}); {INSTALL_HINT}"
        )
    return Java(Path(found), version)


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
