"""Brokers over the network: connections, and the channels of a controller."""
