"""The jars with which Spark reads `s3a://`: hadoop-aws without the 660 MB bundle, pinned, checked on every use.

PySpark's own jars hold no S3 client. `s3a_jars.lock.json` beside this module names every jar with its SHA-256; it is
written by `python -m kafka_maintenance.local.s3a_jars lock` after a change here. `… s3a_jars fetch` prints the folder.

Source: docs/scaling.md; Apache Ivy 2.5 reference (ivy files).
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafka_maintenance.local.cache import cache_folder, locked, sha256_of
from kafka_maintenance.local.errors import JarChecksumError, JarsUnavailableError
from kafka_maintenance.local.java import find_java
from kafka_maintenance.local.kafka_jars import (
    FETCH_TIMEOUT_S,
    REPOSITORY_VARIABLE,
    ivy_settings,
    maven_repository,
    proxy_options,
    with_realm,
)
from kafka_maintenance.local.zookeeper import pyspark_jars

HADOOP_VERSION = "3.5.0"  # that of PySpark 4.3.0
SDK_VERSION = "2.35.4"  # that which hadoop-aws 3.5.0 names
SDK_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
LOCK_FILE = Path(__file__).with_name("s3a_jars.lock.json")
# The bundle holds every AWS service; the others are among Spark's own jars.
LEFT_OUT = (
    ("software.amazon.awssdk", "bundle"),
    ("io.netty", "*"),
    ("org.slf4j", "slf4j-api"),
    ("org.apache.httpcomponents", "*"),
    ("commons-codec", "commons-codec"),
    ("commons-logging", "commons-logging"),
)


def s3a_jars(*, cache: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The jars, sorted, fetched if absent, every file checked against the lock file.

    Raises:
        JarsUnavailableError: they are not cached and cannot be fetched.
        JarChecksumError: a jar is missing, unknown or altered.
        JavaMissingError: there is no Java to run Ivy.
    """
    folder = (cache or cache_folder(env)) / "s3a-jars" / HADOOP_VERSION
    if not folder.is_dir():
        with locked(folder.with_name(f"{HADOOP_VERSION}.lock")):
            if not folder.is_dir():
                fetch_jars(folder, env=env)
                try:
                    check_jars(folder)
                except JarChecksumError:
                    shutil.rmtree(folder)
                    raise
    check_jars(folder)
    return tuple(sorted(folder.glob("*.jar")))


def check_jars(folder: Path) -> None:
    """Compares a folder with the lock file: the same names, the same bytes.

    Raises:
        JarChecksumError: they differ; names the differing files.
    """
    expected: dict[str, str] = json.loads(LOCK_FILE.read_text())
    found = {jar.name: sha256_of(jar) for jar in folder.glob("*.jar")}
    if found != expected:
        differing = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise JarChecksumError(
            f"checking the S3A jars in {folder}: expected those of {LOCK_FILE.name}, found others: "
            f"{', '.join(differing[:5])}; delete {folder} and start again to fetch it anew"
        )


def fetch_jars(folder: Path, *, env: Mapping[str, str] | None = None) -> None:
    """Fetches the jars into a new folder, all or none.

    Raises:
        JarsUnavailableError: Ivy could not get them; carries the end of what it said.
    """
    repository = maven_repository(env)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "settings.xml").write_text(ivy_settings(with_realm(repository), scratch / "ivy-cache"))
        (scratch / "ivy.xml").write_text(_ivy_module())
        command = [
            *(str(find_java(env).program), *proxy_options(env)),
            *("-cp", str(next(pyspark_jars().glob("ivy-*.jar"))), "org.apache.ivy.Main"),
            *("-settings", str(scratch / "settings.xml"), "-ivy", str(scratch / "ivy.xml")),
            *("-types", "jar", "bundle"),
            *("-retrieve", str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT_S)
            output, failed = answer.stdout + answer.stderr, answer.returncode != 0
        except subprocess.TimeoutExpired:
            output, failed = f"no end after {FETCH_TIMEOUT_S} s", True
        if failed or not (scratch / "jars" / f"hadoop-aws-{HADOOP_VERSION}.jar").is_file():
            raise JarsUnavailableError(
                f"fetching the S3A jars from {repository.url}: {output[-300:].strip()}; connect this machine to the "
                f"network and start again, name a mirror in {REPOSITORY_VARIABLE}, or copy {folder} from a machine "
                "that has it"
            )
        (scratch / "jars").rename(folder)


def _ivy_module() -> str:
    wanted = [("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION)]
    wanted += [("software.amazon.awssdk", module, SDK_VERSION) for module in SDK_MODULES]
    dependencies = "".join(
        f'<dependency org="{o}" name="{n}" rev="{r}" conf="default->default"/>' for o, n, r in wanted
    )
    left_out = "".join(f'<exclude org="{organisation}" module="{module}"/>' for organisation, module in LEFT_OUT)
    return (
        '<ivy-module version="2.0"><info organisation="kafka-maintenance" module="s3a"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>{dependencies}{left_out}</dependencies></ivy-module>\n"
    )


def write_lock() -> None:
    """Fetches into a scratch folder and writes the checksums into the lock file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "jars"
        fetch_jars(folder)
        lock = {jar.name: sha256_of(jar) for jar in sorted(folder.glob("*.jar"))}
    LOCK_FILE.write_text(json.dumps(lock, indent=1) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock"]:
            write_lock()
        case ["fetch"]:
            print(",".join(map(str, s3a_jars())))
        case _:
            sys.exit("usage: python -m kafka_maintenance.local.s3a_jars lock|fetch")
