"""Approved plans: the lock, the steps, approvals and receipts."""
