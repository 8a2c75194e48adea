"""Background work, one kind a module."""
