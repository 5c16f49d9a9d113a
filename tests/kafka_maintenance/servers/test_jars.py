"""Fetching what is not in the repository: where from, and that nothing unknown is ever used."""

import base64
import hashlib
import http.server
import json
import os
import re
from dataclasses import fields

import pytest

from controller_core.model.dialect import MINOR_VERSIONS, Dialect, dialect_for
from kafka_maintenance.servers import broker_jvm, class_data, jar_sets, maven
from kafka_maintenance.servers import kafka_jars as jars
from kafka_maintenance.servers.errors import JarChecksumError, JarsUnavailableError, VersionRefusedError
from kafka_maintenance.servers.java import Java
from kafka_maintenance.servers.s3 import gateway_program
from tests.listening import listening
from tests.source_files import text

SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
  <mirrors>
    <mirror><id>other</id><mirrorOf>jboss</mirrorOf><url>https://other.example/</url></mirror>
    <mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url>https://ours.example/maven</url></mirror>
  </mirrors>
  <servers><server><id>ours</id><username>me</username><password>geheim</password></server></servers>
</settings>"""


@pytest.fixture
def locked_jar(tmp_path, monkeypatch):
    """A cache that holds one jar of Kafka 3.9 and a lock file that names it."""
    folder = tmp_path / "kafka-jars" / "3.9.2"
    folder.mkdir(parents=True)
    (folder / "kafka.jar").write_bytes(b"good")
    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps({"3.9": {"kafka.jar": hashlib.sha256(b"good").hexdigest()}}))
    monkeypatch.setattr(jars, "LOCK_FILE", lock)
    return folder / "kafka.jar"


def test_jars_that_an_image_holds_are_used_from_a_folder_that_nobody_may_write(locked_jar, tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(path)

    named = {"KAFKA_MAINTENANCE_JARS": str(tmp_path), "XDG_CACHE_HOME": "/absent"}
    monkeypatch.setattr(jar_sets, "locked", refused)
    monkeypatch.setattr(class_data, "locked", refused)
    folder = jars.kafka_jars("3.9", env=named)
    assert folder == locked_jar.parent
    program = tmp_path / "java"
    program.write_bytes(b"a program")
    java = Java(program, 17)
    assert broker_jvm.class_data_archive("3.9", java, folder) is None, "no class data archive, which only costs time"
    archive = folder.parent / f"3.9.2-{hashlib.sha256(b'a program').hexdigest()[:12]}.jsa"
    archive.write_bytes(b"classes")
    assert broker_jvm.class_data_archive("3.9", java, folder) == archive


def test_a_cached_set_of_jars_is_used_without_network(locked_jar, tmp_path):
    assert jars.kafka_jars("3.9", cache=tmp_path) == locked_jar.parent


def test_an_altered_jar_is_refused(locked_jar, tmp_path):
    locked_jar.write_bytes(b"evil")
    with pytest.raises(JarChecksumError, match=r"kafka\.jar should have sha256 .*delete .* and start again"):
        jars.kafka_jars("3.9", cache=tmp_path)


def test_a_missing_jar_is_refused(locked_jar, tmp_path):
    locked_jar.rename(locked_jar.with_suffix(".bak"))
    with pytest.raises(JarChecksumError, match=r"kafka\.jar is missing"):
        jars.kafka_jars("3.9", cache=tmp_path)


def test_an_extra_jar_is_refused(locked_jar, tmp_path):
    locked_jar.with_name("extra.jar").write_bytes(b"")
    with pytest.raises(JarChecksumError, match=r"extra\.jar is not expected"):
        jars.kafka_jars("3.9", cache=tmp_path)


def test_an_unknown_version_lists_the_known_ones():
    with pytest.raises(VersionRefusedError, match=r"Kafka '4\.0'.*0\.10\.2, .*3\.9") as refusal:
        jars.kafka_jars("4.0")
    assert "each change of the ZooKeeper controller since 0.10.2 is in one" in str(refusal.value)


def test_the_page_of_the_demo_lists_the_pinned_versions():
    (listed,) = re.findall(
        r"`KAFKA_VERSION` is one of the versions whose jars are pinned: ([\d., ]+)\. ", text("docs/local-stack.md")
    )
    assert listed.split(", ") == list(jars.VERSIONS)


def test_a_pinned_version_has_each_value_of_each_difference_between_versions():
    def values(versions):
        dialects = [dialect_for(version) for version in versions]
        names = [each.name for each in fields(Dialect) if each.name not in {"version", "ibp_name"}]
        return {(name, getattr(dialect, name)) for dialect in dialects for name in names}

    assert values(MINOR_VERSIONS) - values(jars.VERSIONS) == {("leader_and_isr_version", 6)}


def test_without_network_the_message_says_what_to_do_and_nothing_is_left(tmp_path):
    environment = {**os.environ, maven.REPOSITORY_VARIABLE: "http://127.0.0.1:9/maven/"}
    with pytest.raises(JarsUnavailableError, match=r"from http://127.0.0.1:9/maven/.*connect this machine") as caught:
        jars.kafka_jars("1.1", cache=tmp_path, env=environment)
    assert "Connection refused" in str(caught.value)
    assert [path.name for path in (tmp_path / "kafka-jars").iterdir()] == ["1.1.1.lock"]


def test_every_version_is_in_the_lock_file_with_its_broker():
    missing = [
        version
        for version, release in jars.VERSIONS.items()
        if f"kafka_{release.scala}-{release.version}.jar" not in jars.read_lock()[version]
    ]
    assert missing == []


def test_the_lock_file_holds_digests():
    digests = {digest for locked in jars.read_lock().values() for digest in locked.values()}
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


@pytest.mark.parametrize(
    ("of", "url"),
    [
        pytest.param("central", "https://ours.example/maven", id="a mirror of central"),
        pytest.param("*", "https://ours.example/maven", id="a mirror of everything"),
        pytest.param("external:*,!jboss", "https://ours.example/maven", id="a mirror of everything but one"),
        pytest.param("*,!central", None, id="a mirror of everything but central"),
        pytest.param("apache", None, id="a mirror of something else"),
    ],
)
def test_mirror_of_the_users_maven_settings(of, url):
    found = maven.mirror_of_central(SETTINGS.format(of=of))
    assert (found and found.url) == url


def test_a_mirrors_login_goes_into_ivys_settings(tmp_path):
    repository = maven.mirror_of_central(SETTINGS.format(of="central"))
    text = jar_sets.ivy_settings(repository, tmp_path)
    assert 'root="https://ours.example/maven"' in text
    assert '<credentials host="ours.example" realm="" username="me" passwd="geheim"/>' in text


class Repository(http.server.ThreadingHTTPServer):
    """A Maven repository on loopback: what it holds by path, whether it wants a login, and what it was asked, with which login."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_port}/maven/"
        self.files = {}
        self.wants_login = False
        self.false_answers = []  # the statuses with which it answers for a jar at first
        self.asked = []


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        login = self.headers.get("Authorization")
        self.server.asked.append((self.path.rsplit("/", 1)[-1], login))
        body = self.server.files.get(self.path, b"")
        status = 200 if self.path in self.server.files else 404
        if self.server.wants_login and login is None:
            status, body = 401, b""
        if self.server.false_answers and self.command == "GET" and self.path.endswith(".jar"):
            status, body = self.server.false_answers.pop(), b""
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="Our jars"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - http.server names it

    def log_message(self, *args):
        pass


@pytest.fixture
def repository():
    """A repository that is empty."""
    with listening(Repository()) as server:
        yield server


@pytest.fixture
def one_jar(repository):
    """A repository of one jar, with a false checksum of it."""
    pom = b"<project><groupId>a</groupId><artifactId>b</artifactId><version>1</version></project>"
    files = {"/maven/a/b/1/b-1.pom": pom, "/maven/a/b/1/b-1.jar": b"a jar"}
    repository.files = files | {f"{path}.sha1": b"0" * 40 for path in files}
    return repository


NOTHING_THERE = """\
:: problems summary ::
:::: WARNINGS
  module not found: org.apache.kafka#kafka_2.11;1.1.1
  ==== central: tried
  http://127.0.0.1:40163/maven/org/apache/kafka/kafka_2.11/1.1.1/kafka_2.11-1.1.1.pom
"""
"""What Ivy prints of a repository that holds nothing, on a port that begins with the status of a login that fails."""


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        pytest.param(NOTHING_THERE, "module not found: org.apache.kafka#kafka_2.11;1.1.1", id="not there"),
        pytest.param(
            f"{NOTHING_THERE}\nServer returned HTTP response code: 401\n",
            "Server returned HTTP response code: 401",
            id="no login",
        ),
        pytest.param(f"{NOTHING_THERE}\nConnection refused\n", "Connection refused", id="no network"),
        pytest.param("first\nsecond\nlast\n", "second | last", id="no known sign"),
        pytest.param("", "no output", id="nothing said"),
    ],
)
def test_why_ivy_failed(output, reason):
    assert jar_sets.ivy_reason(output) == reason


def test_a_mirror_that_wants_a_login_gets_it(tmp_path, repository):
    repository.wants_login = True
    (tmp_path / ".m2").mkdir()
    settings = SETTINGS.format(of="central").replace("https://ours.example/maven", repository.url.rstrip("/"))
    (tmp_path / ".m2" / "settings.xml").write_text(settings)
    with pytest.raises(JarsUnavailableError, match="not found"):
        jars.kafka_jars("1.1", cache=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    login = "Basic " + base64.b64encode(b"me:geheim").decode()
    assert ("kafka_2.11-1.1.1.pom", login) in repository.asked


@pytest.mark.services
def test_no_more_is_asked_for_than_what_is_used_and_a_new_lock_file_compares_checksums(monkeypatch, tmp_path, one_jar):
    monkeypatch.setenv(maven.REPOSITORY_VARIABLE, one_jar.url)
    wanted = jar_sets.JarSet("one", "one", jar_sets.ivy_module("one", [("a", "b", "1")]), "b-1.jar", {})
    wanted.fetch(tmp_path / "fetched")
    assert {name for name, _ in one_jar.asked} == {"b-1.pom", "b-1.jar"}
    with pytest.raises(JarsUnavailableError, match="invalid sha1"):
        wanted.fetched_digests()


@pytest.mark.services
@pytest.mark.parametrize("answer", [503, 404, 200], ids=["an error", "not there", "without content"])
def test_one_false_answer_of_a_repository_is_no_obstacle(tmp_path, one_jar, answer):
    one_jar.false_answers.append(answer)
    digests = {"b-1.jar": hashlib.sha256(b"a jar").hexdigest()}
    wanted = jar_sets.JarSet("one", "one", jar_sets.ivy_module("one", [("a", "b", "1")]), "b-1.jar", digests)
    folder = wanted.cached(cache=tmp_path, env={**os.environ, maven.REPOSITORY_VARIABLE: one_jar.url})
    assert (folder / "b-1.jar").read_bytes() == b"a jar"


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        pytest.param({}, maven.MAVEN_CENTRAL, id="no settings at all"),
        pytest.param({maven.REPOSITORY_VARIABLE: "https://mine.example/"}, "https://mine.example/", id="the variable"),
    ],
)
def test_where_jars_come_from(tmp_path, environment, url):
    assert maven.maven_repository({"HOME": str(tmp_path), **environment}).url == url


def test_the_variable_wins_over_the_settings(tmp_path):
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(SETTINGS.format(of="central"))
    home = {"HOME": str(tmp_path)}
    assert maven.maven_repository(home).username == "me"
    assert maven.maven_repository({**home, maven.REPOSITORY_VARIABLE: "https://mine.example/"}).username is None


def test_a_proxy_of_the_environment_reaches_java():
    assert maven.proxy_options({"https_proxy": "http://proxy.example:8080"}) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=8080",
    ]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        pytest.param("0.10.2", 'name="jaxb-api"', id="old brokers get the class that Java dropped"),
        pytest.param("2.3", '<override org="org.apache.zookeeper"', id="2.0 to 2.3 get another ZooKeeper client"),
        pytest.param("3.9", 'rev="3.9.2"', id="the version is pinned"),
    ],
)
def test_what_ivy_is_asked_for(version, told):
    assert told in jars.jar_set(version).module


def test_no_go_and_no_cache_means_no_versitygw(tmp_path):
    assert gateway_program(cache=tmp_path, env={"PATH": str(tmp_path)}) is None


def test_a_cached_versitygw_needs_no_go(tmp_path):
    program = tmp_path / "bin" / "versitygw-v1.8.0"
    program.parent.mkdir()
    program.touch()
    assert gateway_program(cache=tmp_path, env={"PATH": ""}) == program
