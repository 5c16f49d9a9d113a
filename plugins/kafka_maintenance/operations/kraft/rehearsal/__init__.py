"""The rehearsal of a migration to KRaft on a copy: real ZooKeeper, a real controller, imitated brokers. No cluster is contacted."""
