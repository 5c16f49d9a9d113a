"""The way from ZooKeeper to KRaft: in which phase a cluster is, and what stands against its migration. Nothing here writes."""
