"""A live cluster: observation, ISR-change notifications."""
