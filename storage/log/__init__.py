"""One partition's log: append, read, load, truncate."""
