"""Certified reassignment plans: `plan_reassignment(state, goals)` and what it is made of. numpy and ortools only."""
