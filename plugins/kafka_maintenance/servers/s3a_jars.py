"""The jars with which Spark reads `s3a://`: hadoop-aws without the 660 MB bundle, pinned, checked on every use.

PySpark's own jars hold no S3 client. `s3a_jars.lock.json` beside this module names every jar with its SHA-256; it is
written by `python -m kafka_maintenance.servers.s3a_jars lock` after a change here. `… s3a_jars fetch` prints the jars.

Source: docs/scaling.md.
"""

import json
import sys
from pathlib import Path

from kafka_maintenance.servers.jar_sets import JarSet, ivy_module

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


def s3a_jars() -> tuple[Path, ...]:
    """The jars, sorted; errors: see `JarSet.cached`."""
    return tuple(sorted(jar_set().cached().glob("*.jar")))


def jar_set() -> JarSet:
    """hadoop-aws and the modules of the AWS SDK that it uses."""
    wanted = [("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION)]
    wanted += [("software.amazon.awssdk", module, SDK_VERSION) for module in SDK_MODULES]
    left_out = [f'<exclude org="{organisation}" module="{module}"/>' for organisation, module in LEFT_OUT]
    return JarSet(
        title=f"S3A {HADOOP_VERSION}",
        folder=f"s3a-jars/{HADOOP_VERSION}",
        module=ivy_module("s3a", wanted, *left_out),
        main_jar=f"hadoop-aws-{HADOOP_VERSION}.jar",
        digests=json.loads(LOCK_FILE.read_text()) if LOCK_FILE.exists() else {},
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock"]:
            LOCK_FILE.write_text(json.dumps(jar_set().fetched_digests(), indent=1) + "\n")
        case ["fetch"]:
            print(",".join(map(str, s3a_jars())))
        case _:
            sys.exit("usage: python -m kafka_maintenance.servers.s3a_jars lock|fetch")
