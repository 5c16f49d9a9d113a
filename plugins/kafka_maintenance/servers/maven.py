"""Where jars come from: Maven Central, or the mirror, the login and the proxy that the user's machine is set up for.

Source: Maven settings reference (mirrors, servers).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import httpx

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
REPOSITORY_VARIABLE = "KAFKA_MAINTENANCE_MAVEN_REPOSITORY"


@dataclass(frozen=True, slots=True)
class MavenRepository:
    """Where jars come from: a base URL, with a login when it wants one."""

    url: str
    username: str | None = None
    password: str | None = None
    realm: str | None = None


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
