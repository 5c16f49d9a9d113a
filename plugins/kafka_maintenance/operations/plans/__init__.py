"""Plans: made, proven, stored, read."""
