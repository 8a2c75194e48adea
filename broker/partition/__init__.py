"""Partitions hosted here: leadership, append, read and parked requests."""
