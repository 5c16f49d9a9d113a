"""A consistent cut of a ZooKeeper tree: reading, decoding into tables, writing back."""
