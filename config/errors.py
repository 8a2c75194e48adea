"""The one failure of this room: a configuration that cannot be accepted."""

from __future__ import annotations


class InvalidConfig(Exception):
    """A key or a value is refused; the message is one line and names both."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def invalid_value(name: str, value: object, reason: str) -> InvalidConfig:
    """Build the refusal of one value in Kafka's wording, which tools and tests match on."""
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {reason}")
