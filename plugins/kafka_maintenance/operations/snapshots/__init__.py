"""Snapshots: taking, listing, comparing, questions, retention."""
