"""The worlds around the core: ZooKeeper, brokers and object stores, real and in memory."""
