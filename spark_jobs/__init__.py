"""Spark jobs over snapshots: DataFrame in, DataFrame out."""
