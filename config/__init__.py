"""Configuration: one table of keys and what derives from it."""
