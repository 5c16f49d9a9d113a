"""Snapshots: taking, listing, comparing, questions."""
