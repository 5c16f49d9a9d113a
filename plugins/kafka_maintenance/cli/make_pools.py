"""`kafka-maintenance make-pools`: the pools of the pipeline, in the database of the Airflow that is installed beside it."""

import argparse
from typing import Any

from kafka_maintenance.cli.arguments import ExitStatus, add_json_argument, show


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "make-pools",
        help="make the pools that Airflow's database lacks",
        description="Makes the pools `spark`, `kafka_apply` and one per cluster that the Variable kafka_maintenance_clusters lists, each of one "
        "slot; existing ones are left as they are. The scheduler does the same when it starts, and for the first task that needs one. "
        "Run it where Airflow's settings are, as `airflow db migrate`.",
    )
    add_json_argument(command)
    command.set_defaults(run=_make)


def _make(arguments: argparse.Namespace) -> int:
    from kafka_maintenance.operations.errors import OperationError

    try:
        from kafka_maintenance.tasks.pools import make_missing_pools, require_tables
    except (
        Exception
    ) as error:  # Airflow reads its settings while it is imported, and says of a wrong one what Python says
        raise OperationError(
            f"pools not made: expected an Airflow that loads with its settings, found {error!r}; correct AIRFLOW__DATABASE__SQL_ALCHEMY_CONN or "
            "airflow.cfg until `airflow db check` succeeds"
        ) from error
    require_tables()
    made = make_missing_pools()
    show(arguments, "\n".join(f"made {name}" for name in made) or "every pool is there", {"made": list(made)})
    return ExitStatus.DONE
