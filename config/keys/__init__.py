"""The table of configuration keys, by theme."""
