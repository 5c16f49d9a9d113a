"""A ZooKeeper, brokers and a cluster in memory; held to the contract tests of the real ones."""
