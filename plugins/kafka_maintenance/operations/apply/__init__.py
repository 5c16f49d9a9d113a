"""Approved plans: the lock, the steps, what is waited for, and how a run ends."""
