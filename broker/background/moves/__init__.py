"""Moves between log directories: who asks for them, the copying, and the swap at the end."""
