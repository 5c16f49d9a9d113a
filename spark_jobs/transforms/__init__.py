"""Pure functions from frames to frames. What each makes of one small sick cluster: `tests/spark_jobs/transforms/examples`."""
