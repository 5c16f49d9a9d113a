"""The command `kafka-maintenance`: one module per group of sub-commands."""
