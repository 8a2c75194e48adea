"""Faults of log directories: everything that the files say twice is compared, and nothing is written."""
