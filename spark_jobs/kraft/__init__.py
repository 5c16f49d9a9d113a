"""The preconditions of a migration to KRaft, judged from the tree of a snapshot; it knows nothing of Spark."""
