"""Each transform's whole result, schema and nullability included, for one small sick cluster, as `examples/NAME.txt` prints it.

`pytest --rewrite` accepts what a transform makes now: read that diff like code.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StructType

from spark_jobs import schemas, transforms
from spark_jobs.io import datasets
from spark_jobs.transforms import (
    bad_rows,
    cluster_findings,
    deletion,
    disk_findings,
    facts,
    findings,
    history,
    imbalance,
    partition_findings,
    summary,
)
from tests.spark_jobs.facts import described_facts, facts_of
from tests.spark_jobs.worlds import World, frames

EXAMPLES = Path(__file__).parent / "examples"
TODAY = World(  # three registered brokers in two racks; broker 4 is down
    brokers={1: "a", 2: "b", 3: None},
    partitions=(
        ("orders", 0, (1, 2, 3), 1, (1, 2, 3)),  # as it should be
        ("orders", 1, (2, 3, 1), 1, (1, 3, 2)),  # led by another than its preferred leader
        ("orders", 2, (3, 1, 2), 1, (1, 2)),  # its preferred leader lags
        ("orders", 3, (4, 1, 2), -1, (4,)),  # the only in-sync replica is down
        ("orders", 4, (1, 2), None, ()),  # without a state
        ("orders", 5, (1, 3, 2), 1, (1, 3), (2,), (3,)),  # on its way from 3 to 2
        ("orders", 6, (1, 1), 1, (1,)),  # contradicts itself
        ("trash", 0, (1, 4), 1, (1,)),  # asked to be deleted, but a replica is down
    ),
    queued={"trash": 900},
    requests=(("reassign_partitions", "orders", 1, (1, 2, 3), 1200),),
    notifications=(("isr_change", "isr_change_0000000001", "orders", 2, 1, 90),),
    configs=(
        ("topics", "orders", "min.insync.replicas", "3"),
        ("topics", "orders", "unclean.leader.election.enable", "true"),
        ("brokers", "1", "leader.replication.throttled.rate", "1000000"),
    ),
    bad_rows=(("/brokers/topics/audit/partitions/0/state", "is no JSON"),),
    controller={"controller_epoch": 12, "controller_id": 4, "consistent": False},
)
YESTERDAY = replace(
    TODAY.on(1),
    brokers={1: "a", 2: "b", 3: None, 4: "a"},
    partitions=(
        *(("orders", number, (number % 3 + 1, 4), number % 3 + 1, (number % 3 + 1, 4)) for number in range(4)),
        ("orders", 5, (1, 3, 2), 1, (1, 3), (2,), (3,)),
    ),
    controller={"controller_epoch": 7, "controller_id": 4},
)

_GIB = 2**30
DISKS = [  # broker 1 leads and holds nearly all, 2 has little left, a directory of 3 is offline
    {"cluster": TODAY.cluster, "taken_at": TODAY.taken_at, "broker_id": broker, "log_dir": path, "error_code": error,
     "total_bytes": 100 * _GIB, "usable_bytes": usable * _GIB, "topic": topic, "partition": 0, "size": size, "is_future": False}
    for broker, path, error, usable, topic, size in (
        (1, "/a", 0, 40, "orders", 60 * _GIB), (2, "/a", 0, 3, "orders", 1), (3, "/a", 0, 90, "orders", 1), (3, "/b", 56, 90, None, None),
    )
]  # fmt: skip


def two_findings():
    return (
        findings.finding(F.col("leader").isNull(), "no_state", "warning", "the first of two that are asked for"),
        findings.finding(F.size("isr") < F.size("replicas"), "lags", "info", "the second", F.col("isr")),
    )


@pytest.fixture(scope="module")
def made(spark):
    """What the job has when it calls a transform: tables of today, of today and yesterday, facts, judged rows."""
    today, yesterday, window = (frames(spark, *worlds) for worlds in ((TODAY,), (YESTERDAY,), (TODAY, YESTERDAY)))
    judged = bad_rows.with_reason(today["partitions"])
    good = {**today, "partitions": bad_rows.good_partitions(judged)}
    refused = bad_rows.refused_rows(judged, today["bad_rows"])
    known = described_facts(spark, good, refused=refused).cache()  # a dozen transforms ask it
    changes = history.partition_changes(bad_rows.plausible(window["partitions"])).cache()
    grown = history.growth(window["partitions"], window["brokers"], window["cluster"]).cache()
    held = history.replicas_by_day(window["partitions"])
    moved = cluster_findings.broker_findings(summary.broker_load(good["partitions"], known), known, window["brokers"])
    registered = cluster_findings.registrations(summary.broker_load(good["partitions"], known), today["brokers"])
    return {
        "with_reason": judged,
        "plausible": bad_rows.plausible(today["partitions"]),
        "good_partitions": good["partitions"],
        "refused_rows": refused,
        "snapshot_facts": known,
        "core_facts": facts.core_facts(known, good),
        "queued_topics": facts.queued_topics(known),
        "staying": facts.staying(good["partitions"], known),
        "min_isr_of_topics": facts.min_isr_of_topics(today["configs"]),
        "imbalance": imbalance.imbalance(good["partitions"], known),
        "imbalanced_partitions": imbalance.imbalanced_partitions(good["partitions"], known),
        "deletion_eligibility": deletion.deletion_eligibility(
            good["partitions"], today["topics"], today["requests"], known
        ),
        "blocking_partitions": deletion.blocking_partitions(good["partitions"], today["requests"], known),
        "partition_findings": partition_findings.partition_findings(good["partitions"], known, today["configs"]),
        "unmoved_findings": partition_findings.unmoved_findings(good["partitions"], yesterday["partitions"]),
        "min_isr_findings": partition_findings.min_isr_findings(good["partitions"], known, today["configs"]),
        "broker_findings": moved,
        "as_findings": findings.as_findings(moved.select("cluster", "snapshot_id", "kind", "severity", "detail")),
        "each_finding": findings.each_finding(good["partitions"], ("topic", "partition"), *two_findings()),
        "registration_findings": cluster_findings.registration_findings(known, today["brokers"], today["cluster"]),
        "unclean_findings": cluster_findings.unclean_findings(today["configs"], today["topics"], known),
        "request_findings": cluster_findings.request_findings(today["requests"], today["notifications"]),
        "config_findings": cluster_findings.config_findings(
            today["configs"],
            facts_of(spark, frames(spark, replace(TODAY, partitions=TODAY.partitions[:2], requests=()))),
        ),
        "cluster_findings": cluster_findings.cluster_findings(
            today["cluster"], yesterday["cluster"], today["bad_rows"], registered
        ),
        "registrations": registered,
        "disk_findings": disk_findings.disk_findings(
            datasets.driver_rows(spark, DISKS, schemas.DISKS), good["partitions"], known
        ),
        "cluster_summary": summary.cluster_summary(good["partitions"], known),
        "broker_load": summary.broker_load(good["partitions"], known),
        "partition_changes": changes,
        "leader_churn": history.leader_churn(changes, grown),
        "unstable_partitions": history.unstable_partitions(changes),
        "replicas_by_day": held,
        "broker_history": history.broker_history(window["brokers"], window["cluster"], held),
        "controller_churn": history.controller_churn(window["cluster"]),
        "growth": grown,
    }


@pytest.fixture(scope="module")
def rows(made):
    """The rows of what was made by that name, asked for once."""
    return cache(lambda name: made[name].collect())


def transforms_of_frames():
    """Names of the public functions of `spark_jobs.transforms` that make a frame."""
    modules = [import_module(f"{transforms.__name__}.{module.name}") for module in iter_modules(transforms.__path__)]
    return {
        name
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and inspect.signature(function).return_annotation is DataFrame
    }


def printed(frame, rows):
    """The schema, a column a line, then the frame's rows in order, a row a line."""
    assert isinstance(frame.schema, StructType)
    columns = [
        f"{field.name}: {field.dataType.simpleString()}{'' if field.nullable else ', never null'}"
        for field in frame.schema
    ]
    return "\n".join([*columns, "", *sorted(" | ".join(map(text, row)) for row in rows)]) + "\n"


def text(value):
    match value:
        case None:
            return "-"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"  # Spark gives local time
        case Row():
            return "(" + ", ".join(f"{name}={text(each)}" for name, each in value.asDict().items()) + ")"
        case Mapping():
            return "{" + ", ".join(f"{text(key)}: {text(each)}" for key, each in sorted(value.items())) + "}"
        case list():
            return "[" + ", ".join(map(text, value)) + "]"
        case _:
            return str(value)


@pytest.mark.parametrize("name", sorted(transforms_of_frames()))
def test_a_transform_makes_what_its_example_prints(made, rows, name, request):
    path = EXAMPLES / f"{name}.txt"
    found = printed(made[name], rows(name))
    if request.config.getoption("--rewrite", default=False):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_no_example_outlived_its_transform():
    assert {path.stem for path in EXAMPLES.iterdir()} == transforms_of_frames()


def test_the_cluster_of_the_examples_is_sick_in_many_ways(made, rows):
    kinds = {row["kind"] for name in made if name.endswith("_findings") for row in rows(name)}
    assert len(kinds) >= 20, sorted(kinds)
