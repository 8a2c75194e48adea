"""The metrics catalog and how it is exported."""
