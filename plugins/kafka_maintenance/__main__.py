"""`python -m kafka_maintenance`: the same as `kafka-maintenance`."""

import sys

from kafka_maintenance.cli import main

sys.exit(main())
