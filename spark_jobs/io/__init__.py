"""Snapshots, settings and results as files: reading and writing that check schema and place."""
