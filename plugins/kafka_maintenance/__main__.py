"""`python -m kafka_maintenance`: the same as `kafka-maintenance`."""

from kafka_maintenance.cli.main import run

run()
