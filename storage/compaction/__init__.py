"""Compaction: keep the newest record of each key, files to files, and the swap that installs the result."""
