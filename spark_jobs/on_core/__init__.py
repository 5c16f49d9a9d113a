"""`controller_core` on executors: prediction, failure drills, deletions, reassignment proposals."""
