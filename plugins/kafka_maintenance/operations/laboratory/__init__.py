"""A controller of ours as the only one, on loopback."""
