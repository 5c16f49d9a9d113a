"""The analysis of snapshots on Spark: staging, the job, publishing."""
