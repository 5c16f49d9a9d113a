"""`python -m kafka_maintenance`: the same as `kafka-maintenance`."""

import sys

from kafka_maintenance.cli.main import main

sys.exit(main())
