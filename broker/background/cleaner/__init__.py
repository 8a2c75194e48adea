"""Compaction: the cleaner, its passes, and the child processes that do them."""
