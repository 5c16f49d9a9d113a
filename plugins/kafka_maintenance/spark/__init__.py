"""How Spark jobs are submitted: arguments, the archive of the core, the class archive."""
