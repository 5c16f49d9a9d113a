"""Retention: which snapshots go, what still needs one, the plan that is approved and carried out."""
