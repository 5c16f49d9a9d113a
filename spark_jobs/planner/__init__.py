"""Reassignment plans of proven minimal movement."""
