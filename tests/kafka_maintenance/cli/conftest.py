"""The plan that tests of the command share."""

from tests.kafka_maintenance.cli.commands import stored

__all__ = ["stored"]
