"""How a broker's JVM is started: its flags, settings and log, and the class data archive that halves its start.

Source: Kafka's broker settings; runs of every version on Java 17 against ZooKeeper 3.9.5.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kafka_maintenance.servers import class_data
from kafka_maintenance.servers.java import QUIET_SERVER, SHORT_RUN, Java, find_java
from kafka_maintenance.servers.kafka_jars import kafka_jars, known_release
from kafka_maintenance.servers.ports import LOOPBACK, free_port, listens
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.workspace import Workspace
from kafka_maintenance.servers.zookeeper import ZooKeeperServer, pyspark_jars

START_TIMEOUT_S = 120.0
JVM_FLAGS = (
    *SHORT_RUN,
    *QUIET_SERVER,
    "-Xss512k",
    "-XX:ReservedCodeCacheSize=64m",
)
BROKER_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "30000",
        "num.network.threads": "1",
        "num.io.threads": "2",
        "background.threads": "1",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "1048577",  # the default of 128 MB does not fit a small heap
        "log.cleaner.io.buffer.size": "65536",
        "log.segment.bytes": "1048576",
        "log.index.size.max.bytes": "65536",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",  # the pipeline elects
        "delete.topic.enable": "true",  # the default is false before 1.0
        "controlled.shutdown.max.retries": "1",  # the last broker of a cluster would retry for 15 s
        "controlled.shutdown.retry.backoff.ms": "100",
    }
)
LOG_SETTINGS = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.kafka.controller=DEBUG
log4j.logger.state.change.logger=TRACE
"""


def class_data_archive(version: str, java: Java, jars: Path) -> Path | None:
    """The class data archive that halves a broker's start, made on first use by one short run of a broker.

    An archive fits one Java and one set of jars. Costs about 6 s once; None when it cannot be made, as beside the jars of a read-only
    folder, which only costs time at each start. `python -m kafka_maintenance.servers.broker_jvm VERSION …` makes jars and archive ready.
    """
    archive = jars.parent / f"{known_release(version).version}-{class_data.java_id(java)}.jsa"
    return class_data.recorded(archive, lambda option: _record_classes(java, jars, option))


def _record_classes(java: Java, jars: Path, option: str) -> None:
    with Workspace.create_temporary() as workspace, ZooKeeperServer(workspace) as zookeeper:
        port = free_port()
        settings = {
            **BROKER_SETTINGS,
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
            "log.dirs": "data",
            "zookeeper.connect": zookeeper.hosts,
        }
        write_properties(workspace.folder / "server.properties", settings)
        (workspace.folder / "log4j.properties").write_text(LOG_SETTINGS)
        command = [
            *(str(java.program), "-Xmx128m", *JVM_FLAGS, option),
            f"-Dlog4j.configuration={(workspace.folder / 'log4j.properties').as_uri()}",
            *("-cp", class_path_of(jars), "kafka.Kafka", str(workspace.folder / "server.properties")),
        ]
        child = start_child(workspace, "recorder", command, stop_timeout_s=60)
        wait_until(
            lambda: "/brokers/ids/1" in zookeeper.command("dump") and listens(port),
            what="the recording broker is up",
            timeout_s=START_TIMEOUT_S,
            children=[child],
        )
        child.stop()


def py4j_gateway(version: str, java: Java, port: int) -> list[str]:
    """Java's arguments for a py4j server on `port` that has a broker's classes, read from the broker's class data archive."""
    jars, py4j = kafka_jars(version), next(pyspark_jars().glob("py4j-*.jar"))
    archive = class_data.options(class_data_archive(version, java, jars))
    return [*archive, "-cp", f"{class_path_of(jars)}:{py4j}", "py4j.GatewayServer", str(port)]


def class_path_of(jars: Path) -> str:
    """The jars of a folder as a Java class path; a class data archive fits exactly this order."""
    return ":".join(sorted(str(jar) for jar in jars.glob("*.jar")))


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """A file as Java reads settings: `key=value` lines.

    Folders in it are relative to the workspace, where servers run: Java reads no other letters than those of Latin-1 there, and Kafka
    takes a comma in `log.dirs` for the end of a folder.
    """
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        folder = kafka_jars(wanted)
        print(folder, class_data_archive(wanted, find_java(), folder))
