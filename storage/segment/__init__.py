"""One segment and its files."""
