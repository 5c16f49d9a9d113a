"""What the controller believes of the cluster."""
