"""DataFrame functions, one module per concept."""
