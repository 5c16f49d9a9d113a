"""`kafka-maintenance explain`: what Kafka's controller would do on an event, in the words of `state-change.log`."""

import argparse
import re
from pathlib import Path
from typing import Any

from controller_core.model.partitions import TopicPartition
from kafka_maintenance.cli.arguments import (
    ExitStatus,
    add_cluster_argument,
    add_json_argument,
    add_store_arguments,
    natural,
    plan_store_of,
    show,
    store_of,
    stored_address,
)
from kafka_maintenance.cli.plan import targets_of
from kafka_maintenance.cli.progress import Bars
from kafka_maintenance.cli.snapshot_arguments import add_snapshot_option, snapshot_uri

_NOTHING = "no partition and no replica changes its state"


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "explain",
        help="what the controller would do on an event, as lines of state-change.log",
        description="Loads a snapshot into a simulated cluster of its brokers, lets one event happen, and prints which partition and "
        "replica goes from which state to which, and what fails. No cluster is contacted.",
    )
    event = command.add_mutually_exclusive_group(required=True)
    event.add_argument("--broker-fails", metavar="ID", type=natural, help="its session ends")
    event.add_argument("--broker-starts", metavar="ID", type=natural, help="it registers")
    event.add_argument("--broker-shuts-down", metavar="ID", type=natural, help="it asks for a controlled shutdown")
    event.add_argument(
        "--elect-preferred",
        metavar="TOPIC-PARTITION",
        type=_partition,
        nargs="+",
        action="extend",
        help="an election is asked for",
    )
    event.add_argument("--reassign", metavar="FILE", type=Path, help="Kafka's reassignment JSON is asked for")
    event.add_argument("--delete-topic", metavar="TOPIC", help="its deletion is asked for")
    event.add_argument(
        "--plan", metavar="PLAN", type=stored_address, help="what a stored plan asks for, one request after the other"
    )
    add_snapshot_option(command, "that is loaded (default: the newest)")
    command.add_argument("--kafka-version", metavar="X.Y", help="of the brokers (default: what the metadata shows)")
    add_cluster_argument(command)
    add_store_arguments(command)
    add_json_argument(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> ExitStatus:
    from kafka_maintenance.operations.plans import explain as operation
    from kafka_maintenance.operations.plans.store import read_plan

    if arguments.broker_fails is not None:
        action = operation.broker_fails(arguments.broker_fails)
    elif arguments.broker_starts is not None:
        action = operation.broker_starts(arguments.broker_starts)
    elif arguments.broker_shuts_down is not None:
        action = operation.broker_shuts_down(arguments.broker_shuts_down)
    elif arguments.elect_preferred is not None:
        action = operation.elect_preferred(arguments.elect_preferred)
    elif arguments.reassign is not None:
        action = operation.reassign({each.partition: each.replicas for each in targets_of(arguments.reassign)})
    elif arguments.delete_topic is not None:
        action = operation.delete_topic(arguments.delete_topic)
    else:
        action = operation.carry_out(read_plan(plan_store_of(arguments), arguments.plan).effects)
    with Bars("explain"):
        lines = operation.explain(
            store_of(arguments),
            arguments.cluster,
            action,
            manifest=snapshot_uri(arguments),
            kafka_version=arguments.kafka_version,
        )
    show(arguments, "\n".join(lines) or _NOTHING, {"state_changes": list(lines)})
    return ExitStatus.DONE


def _partition(text: str) -> TopicPartition:
    found = re.fullmatch(r"(.+)-(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected TOPIC-PARTITION, found {text!r}")
    return TopicPartition(found[1], int(found[2]))
