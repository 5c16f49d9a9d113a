"""The jars of a Kafka broker: fetched once from Maven Central by PySpark's Ivy, pinned, checked on every use.

`kafka_jars.lock.json` beside this module names every jar of every version with its SHA-256. It is written by

    python -m kafka_maintenance.local.kafka_jars lock

after a change of `VERSIONS`; read its diff like code. Kafka's own jars are Apache-2.0 and are not in this repository.

Source: Apache Ivy 2.5 reference (settings, ivy files); Maven settings reference (mirrors, servers).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

import httpx

from kafka_maintenance.local.cache import cache_folder, locked, sha256_of
from kafka_maintenance.local.errors import JarChecksumError, JarsUnavailableError
from kafka_maintenance.local.java import find_java
from kafka_maintenance.local.zookeeper import pyspark_jars

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
REPOSITORY_VARIABLE = "KAFKA_MAINTENANCE_MAVEN_REPOSITORY"
LOCK_FILE = Path(__file__).with_name("kafka_jars.lock.json")
FETCH_TIMEOUT_S = 600
LOGGING_MODULE = ("org.slf4j", "slf4j-reload4j", "1.7.36")
# Brokers before 1.0 use a class that Java 11 dropped.
JAXB_MODULE = ("javax.xml.bind", "jaxb-api", "2.3.1")
# The ZooKeeper clients of 2.0 to 2.3 cannot resolve addresses on Java 14 and newer.
ZOOKEEPER_OVERRIDE = "3.4.10"


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """One pinned broker: its exact version, the Scala version of its jar, and what it needs on a modern Java."""

    version: str
    scala: str
    needs_jaxb: bool = False
    overrides_zookeeper: bool = False


VERSIONS: Mapping[str, KafkaRelease] = MappingProxyType(
    {
        "0.10.2": KafkaRelease("0.10.2.2", "2.11", needs_jaxb=True),
        "0.11.0": KafkaRelease("0.11.0.3", "2.11", needs_jaxb=True),
        "1.0": KafkaRelease("1.0.2", "2.11"),
        "1.1": KafkaRelease("1.1.1", "2.11"),
        "2.0": KafkaRelease("2.0.1", "2.11", overrides_zookeeper=True),
        "2.3": KafkaRelease("2.3.1", "2.12", overrides_zookeeper=True),
        "2.4": KafkaRelease("2.4.1", "2.12"),
        "2.8": KafkaRelease("2.8.2", "2.13"),
        "3.9": KafkaRelease("3.9.2", "2.13"),
    }
)


@dataclass(frozen=True, slots=True)
class MavenRepository:
    """Where jars come from: a base URL, with a login when it wants one."""

    url: str
    username: str | None = None
    password: str | None = None
    realm: str | None = None


def kafka_jars(version: str, *, cache: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """The folder with the jars of a Kafka version, fetched if absent, every file checked against the lock file.

    Args:
        version: a key of `VERSIONS`, such as "3.9".
        cache: the cache folder; None for that of the user.
        env: the environment; None for that of this process.

    Raises:
        JarsUnavailableError: the version is unknown, or the jars are not cached and cannot be fetched.
        JarChecksumError: a jar is missing, unknown or altered.
        JavaMissingError: there is no Java to run Ivy.
    """
    release = known_release(version)
    folder = (cache or cache_folder(env)) / "kafka-jars" / release.version
    if not folder.is_dir():
        with locked(folder.with_name(f"{release.version}.lock")):
            if not folder.is_dir():
                fetch_jars(release, folder, env=env)
                try:
                    check_jars(version, folder)
                except JarChecksumError:
                    shutil.rmtree(folder)
                    raise
    check_jars(version, folder)
    return folder


def known_release(version: str) -> KafkaRelease:
    """The pinned release of a version line.

    Raises:
        JarsUnavailableError: the line is not one of `VERSIONS`.
    """
    if version not in VERSIONS:
        raise JarsUnavailableError(
            f"looking for the jars of Kafka {version!r}: known versions are {', '.join(VERSIONS)}; choose one of them"
        )
    return VERSIONS[version]


def check_jars(version: str, folder: Path) -> None:
    """Compare the jars of a folder with the lock file: the same names, the same bytes.

    Raises:
        JarChecksumError: they differ; names the first difference.
    """
    expected: dict[str, str] = read_lock().get(version, {})
    found = {jar.name for jar in folder.glob("*.jar")}
    what_to_do = f"delete {folder} and start again to fetch it anew"
    for name in sorted(expected.keys() ^ found):
        state = "missing" if name in expected else "not expected"
        raise JarChecksumError(f"checking the jars of Kafka {version} in {folder}: {name} is {state}; {what_to_do}")
    for name, digest in expected.items():
        actual = sha256_of(folder / name)
        if actual != digest:
            raise JarChecksumError(
                f"checking the jars of Kafka {version} in {folder}: {name} should have sha256 {digest[:16]}…,"
                f" found {actual[:16]}…; {what_to_do}"
            )


def read_lock() -> dict[str, dict[str, str]]:
    """The lock file: version → jar name → SHA-256."""
    locked_jars: dict[str, dict[str, str]] = json.loads(LOCK_FILE.read_text())
    return locked_jars


def fetch_jars(release: KafkaRelease, folder: Path, *, env: Mapping[str, str] | None = None) -> None:
    """Fetch the jars of a release into a new folder, all or none.

    Raises:
        JarsUnavailableError: Ivy could not get them; carries the reason and what to do.
    """
    repository = maven_repository(env)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "settings.xml").write_text(ivy_settings(with_realm(repository), scratch / "ivy-cache"))
        (scratch / "ivy.xml").write_text(ivy_module(release))
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
        if failed or not any((scratch / "jars").glob(f"kafka_{release.scala}-{release.version}.jar")):
            raise JarsUnavailableError(
                f"fetching the jars of Kafka {release.version} from {repository.url}: {_reason(output)};"
                f" connect this machine to the network and start again, name a mirror in {REPOSITORY_VARIABLE},"
                f" or copy {folder} from a machine that has it"
            )
        (scratch / "jars").rename(folder)


def ivy_settings(repository: MavenRepository, cache: Path) -> str:
    """Ivy's settings file: one Maven repository, a cache of its own."""
    login = ""
    if repository.username is not None:
        host = urlsplit(repository.url).hostname or ""
        login = (
            f"<credentials host={quoteattr(host)} realm={quoteattr(repository.realm or '')} username={quoteattr(repository.username)}"
            f" passwd={quoteattr(repository.password or '')}/>\n"
        )
    return (
        '<ivysettings><settings defaultResolver="central"/>\n'
        f"{login}<caches defaultCacheDir={quoteattr(str(cache))}/>\n"
        f'<resolvers><ibiblio name="central" m2compatible="true" usepoms="true" root={quoteattr(repository.url)}/>'
        "</resolvers></ivysettings>\n"
    )


def ivy_module(release: KafkaRelease) -> str:
    """Ivy's description of what to fetch: the broker, one logging binding, and what an old broker needs besides."""
    modules = [("org.apache.kafka", f"kafka_{release.scala}", release.version), LOGGING_MODULE]
    wanted = [f'<dependency org="{o}" name="{n}" rev="{r}" conf="default->default"/>' for o, n, r in modules]
    if release.needs_jaxb:
        organisation, name, revision = JAXB_MODULE
        wanted.append(
            f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="default->default"'
            ' transitive="false"/>'
        )
    wanted.append('<exclude org="org.slf4j" module="slf4j-log4j12"/><exclude org="log4j" module="log4j"/>')
    if release.overrides_zookeeper:
        wanted.append(f'<override org="org.apache.zookeeper" module="zookeeper" rev="{ZOOKEEPER_OVERRIDE}"/>')
    return (
        '<ivy-module version="2.0"><info organisation="kafka-maintenance" module="broker"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>{''.join(wanted)}</dependencies></ivy-module>\n"
    )


def maven_repository(env: Mapping[str, str] | None = None) -> MavenRepository:
    """Where to fetch from: the environment variable, else the mirror of the user's Maven settings, else Maven Central.

    A mirror counts when it mirrors `central`, `*` or `external:*`; its login is that of the `<server>` of its id.
    """
    environment = os.environ if env is None else env
    if environment.get(REPOSITORY_VARIABLE):
        return MavenRepository(environment[REPOSITORY_VARIABLE])
    settings = Path(environment.get("HOME", "~")).expanduser() / ".m2" / "settings.xml"
    if settings.is_file():
        return mirror_of_central(settings.read_text()) or MavenRepository(MAVEN_CENTRAL)
    return MavenRepository(MAVEN_CENTRAL)


def mirror_of_central(settings: str) -> MavenRepository | None:
    """The first mirror of Maven Central in the text of a Maven settings file, with its login; None without one."""
    try:
        root = ET.fromstring(settings)  # noqa: S314 - the user's own settings file
    except ET.ParseError:
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        mirrored = {part.strip() for part in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = mirror.findtext("{*}url")
        if url and mirrored & {"central", "*", "external:*"} and "!central" not in mirrored:
            username, password = _server_login(root, mirror.findtext("{*}id"))
            return MavenRepository(url.strip(), username, password)
    return None


def with_realm(repository: MavenRepository) -> MavenRepository:
    """The repository with the realm that it asks logins for: Ivy sends a login only where it knows host and realm."""
    if repository.username is None:
        return repository
    try:
        asked = httpx.get(f"{repository.url.rstrip('/')}/org/apache/kafka/", timeout=30).headers.get(
            "WWW-Authenticate", ""
        )
    except httpx.HTTPError:
        return repository
    found = re.search(r'realm="([^"]*)"', asked)
    return replace(repository, realm=found[1]) if found else repository


def proxy_options(env: Mapping[str, str] | None = None) -> list[str]:
    """Java's options for the proxy that `https_proxy` or `http_proxy` names; empty without one."""
    environment = os.environ if env is None else env
    options = []
    for scheme in ("http", "https"):
        proxy = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if proxy:
            address = urlsplit(proxy)
            options += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={address.port or 3128}"]
    return options


def _server_login(root: ET.Element, server_id: str | None) -> tuple[str | None, str | None]:
    for server in root.iterfind("{*}servers/{*}server"):
        if server.findtext("{*}id") == server_id:
            return server.findtext("{*}username"), server.findtext("{*}password")
    return None, None


def _reason(output: str) -> str:
    lines = list(dict.fromkeys(line.strip() for line in output.splitlines() if line.strip()))
    for signs in (
        ("refused", "UnknownHost", "timed out", "Unauthorized", "401", "SSL", "PKIX"),
        ("not found", "ERROR"),
    ):
        told = [line for line in lines if any(sign in line for sign in signs)]
        if told:
            return " | ".join(told[:2])[:500]
    return " | ".join(lines[-2:])[:500] or "no output"


def write_lock(versions: Sequence[str]) -> None:
    """Fetch the named versions into a scratch folder and write their checksums into the lock file."""
    lock = read_lock() if LOCK_FILE.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        for version in versions:
            folder = Path(name) / version
            fetch_jars(known_release(version), folder)
            lock[version] = {jar.name: sha256_of(jar) for jar in sorted(folder.glob("*.jar"))}
            print(f"Kafka {VERSIONS[version].version}: {len(lock[version])} jars", flush=True)
    ordered = {version: lock[version] for version in VERSIONS if version in lock}
    LOCK_FILE.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock", *chosen]:
            write_lock(chosen or list(VERSIONS))
        case ["fetch", *chosen]:
            for wanted_version in chosen or ["3.9"]:
                print(kafka_jars(wanted_version))
        case _:
            sys.exit("usage: python -m kafka_maintenance.local.kafka_jars lock|fetch [VERSION …]")
