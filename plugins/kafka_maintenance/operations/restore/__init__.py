"""Restores: the plan, its application, the drill."""
