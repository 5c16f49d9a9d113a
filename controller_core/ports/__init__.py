"""What the outside must be able to do: protocols of ZooKeeper and of an object store."""
