"""How one step runs: tasks, the turn that they share, and the request batch."""
