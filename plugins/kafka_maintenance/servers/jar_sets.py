"""Sets of jars: fetched once by PySpark's Ivy, all or none, pinned by a lock file and checked on every use.

Source: Apache Ivy 2.5 reference (settings, ivy files).
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from kafka_maintenance.servers.cache import jars_folder, locked, sha256_of
from kafka_maintenance.servers.errors import JarChecksumError, JarsUnavailableError
from kafka_maintenance.servers.java import SHORT_RUN, find_java
from kafka_maintenance.servers.maven import (
    REPOSITORY_VARIABLE,
    MavenRepository,
    maven_repository,
    proxy_options,
    with_realm,
)
from kafka_maintenance.servers.zookeeper import pyspark_jars

FETCH_TIMEOUT_S = 600
ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are fetched together.

    Attributes:
        title: in messages, such as "Kafka 3.9.2".
        folder: below the cache folder, such as "kafka-jars/3.9.2".
        module: Ivy's description of what to fetch (`ivy_module`).
        main_jar: the jar without which a fetch has failed.
        digests: jar name → SHA-256 in hex: exactly these, from the lock file.
    """

    title: str
    folder: str
    module: str
    main_jar: str
    digests: Mapping[str, str]

    def cached(self, *, cache: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
        """The folder with the jars, fetched if absent, every file checked.

        Args:
            cache: the cache folder; None for the one that the environment names, or that of the user.
            env: the environment; None for that of this process.

        Raises:
            JarsUnavailableError: the jars are not cached and cannot be fetched.
            JarChecksumError: a jar is missing, unknown or altered.
            JavaMissingError: there is no Java to run Ivy.
        """
        folder = (cache or jars_folder(env)) / self.folder
        if not folder.is_dir():
            with locked(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    self._fetch_and_check(folder, env)
                    return folder
        self.check(folder)
        return folder

    def _fetch_and_check(self, folder: Path, env: Mapping[str, str] | None) -> None:
        """Once more where it fails: of some hundred answers of a repository one is late, torn or an error now and then."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.fetch(folder, env=env)
                self.check(folder)
            except (JarsUnavailableError, JarChecksumError):
                shutil.rmtree(folder, ignore_errors=True)
                if attempt == ATTEMPTS:
                    raise
            else:
                break

    def check(self, folder: Path) -> None:
        """Compare a folder with the lock file: the same names, the same bytes.

        Raises:
            JarChecksumError: they differ; names the first difference.
        """
        found = {jar.name for jar in folder.glob("*.jar")}
        attempted, advice = (
            f"checking the jars of {self.title} in {folder}",
            f"delete {folder} and start again to fetch it anew",
        )
        for name in sorted(self.digests.keys() ^ found):
            state = "missing" if name in self.digests else "not expected"
            raise JarChecksumError(f"{attempted}: {name} is {state}; {advice}")
        for name, digest in self.digests.items():
            actual = sha256_of(folder / name)
            if actual != digest:
                raise JarChecksumError(
                    f"{attempted}: {name} should have sha256 {digest[:16]}…, found {actual[:16]}…; {advice}"
                )

    def fetch(self, folder: Path, *, env: Mapping[str, str] | None = None, checksums: str = "") -> None:
        """Fetch the jars into a new folder, all or none.

        Args:
            folder: is made.
            env: the environment; None for that of this process.
            checksums: those of the repository that Ivy compares; none where `check` follows, for they double the requests.

        Raises:
            JarsUnavailableError: Ivy could not get them; carries the reason and what to do.
        """
        repository = maven_repository(env)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as name:
            scratch = Path(name)
            (scratch / "settings.xml").write_text(
                ivy_settings(with_realm(repository), scratch / "ivy-cache", checksums)
            )
            (scratch / "ivy.xml").write_text(self.module)
            command = [
                *(str(find_java(env).program), *SHORT_RUN, *proxy_options(env)),
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
            if failed or not (scratch / "jars" / self.main_jar).is_file():
                raise JarsUnavailableError(
                    f"fetching the jars of {self.title} from {repository.url}: {ivy_reason(output)};"
                    f" connect this machine to the network and start again, name a mirror in {REPOSITORY_VARIABLE},"
                    f" or copy {folder} from a machine that has it"
                )
            (scratch / "jars").rename(folder)

    def fetched_digests(self) -> dict[str, str]:
        """What to write into the lock file: the digests of a fresh fetch."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "jars"
            self.fetch(folder, checksums="sha1,md5")
            return {jar.name: sha256_of(jar) for jar in sorted(folder.glob("*.jar"))}


def ivy_settings(repository: MavenRepository, cache: Path, checksums: str = "") -> str:
    """Ivy's settings file: one Maven repository, a cache of its own, and which checksums of the repository are compared."""
    login = ""
    if repository.username is not None:
        host = urlsplit(repository.url).hostname or ""
        login = (
            f"<credentials host={quoteattr(host)} realm={quoteattr(repository.realm or '')} username={quoteattr(repository.username)}"
            f" passwd={quoteattr(repository.password or '')}/>\n"
        )
    set_to = {"ivy.checksums": checksums, "ivy.maven.lookup.sources": "false", "ivy.maven.lookup.javadoc": "false"}
    properties = "".join(
        f"<property name={quoteattr(name)} value={quoteattr(value)}/>" for name, value in set_to.items()
    )
    return (
        f'<ivysettings>{properties}<settings defaultResolver="central"/>\n'
        f"{login}<caches defaultCacheDir={quoteattr(str(cache))}/>\n"
        f'<resolvers><ibiblio name="central" m2compatible="true" usepoms="true" root={quoteattr(repository.url)}/>'
        "</resolvers></ivysettings>\n"
    )


def ivy_module(name: str, dependencies: Iterable[tuple[str, str, str]], *rules: str) -> str:
    """Ivy's description of what to fetch.

    Args:
        name: of the set.
        dependencies: organisation, module and revision; what they depend on comes too.
        rules: further elements, such as exclusions, as XML.
    """
    wanted = [f'<dependency org="{o}" name="{n}" rev="{r}" conf="default->default"/>' for o, n, r in dependencies]
    return (
        f'<ivy-module version="2.0"><info organisation="kafka-maintenance" module="{name}"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>{''.join([*wanted, *rules])}</dependencies></ivy-module>\n"
    )


def ivy_reason(output: str) -> str:
    """Why Ivy failed, of what it printed: what keeps a machine from the repository before what the repository lacks."""
    lines = list(dict.fromkeys(line.strip() for line in output.splitlines() if line.strip()))
    for signs in (
        r"refused|UnknownHost|timed out|Unauthorized|\b401\b|SSL|PKIX|invalid (?:sha1|md5)",
        "not found|ERROR",
    ):
        told = [line for line in lines if re.search(signs, line)]
        if told:
            return " | ".join(told[:2])[:500]
    return " | ".join(lines[-2:])[:500] or "no output"
