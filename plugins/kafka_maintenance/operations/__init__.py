"""What a task or a command does: fetch, call the core, store."""
