"""What ends a command: one line for whoever called it, and an exit status."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot do what it was asked to; the line says what and why."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
