"""The status page: what is read from the broker's parts, and how it is shown to a human or a script."""
