"""ZooKeeper's own files: the snapshots and transaction logs of a server's data directory."""
