"""Leader epochs and where they start."""
