"""ZooKeeper through kazoo: the session, reads in one multi request, TLS."""
