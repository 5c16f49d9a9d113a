"""Certified reassignment plans: `optimal_plan(state, goals)` and what it is made of. numpy and ortools only."""
