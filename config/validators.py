"""Checks as values: each says what is legal and refuses the rest in Kafka's wording.

Source: the validators nested in org.apache.kafka.common.config.ConfigDef.
"""

import re
from typing import Any, NamedTuple

from config.errors import InvalidConfig, invalid_value


class Range(NamedTuple):
    """A number within closed bounds."""

    minimum: float
    maximum: float | None = None

    @property
    def legal(self) -> str:
        """Say what is legal."""
        if self.maximum is None:
            return f"at least {self.minimum}"
        return f"between {self.minimum} and {self.maximum}"

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the value is legal."""
        if value < self.minimum:
            raise invalid_value(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise invalid_value(name, value, f"Value must be no more than {self.maximum}")


class RangeOr(NamedTuple):
    """A number within closed bounds, or one outside them with a meaning of its own."""

    minimum: int
    maximum: int
    other: int

    @property
    def legal(self) -> str:
        """Say what is legal."""
        return f"between {self.minimum} and {self.maximum}, or {self.other}"

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the value is legal."""
        if value != self.other and not self.minimum <= value <= self.maximum:
            reason = f"Value must be between {self.minimum} and {self.maximum} or equal to {self.other}"
            raise invalid_value(name, value, reason)


class OneOf(NamedTuple):
    """A word out of a few."""

    choices: tuple[str, ...]
    ignore_case: bool = False

    @property
    def legal(self) -> str:
        """Say what is legal."""
        return "one of: " + ", ".join(self.choices)

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the value is legal."""
        legal = {choice.lower() for choice in self.choices} if self.ignore_case else self.choices
        if (value.lower() if self.ignore_case else value) not in legal:
            kind = "String must be one of (case insensitive)" if self.ignore_case else "String must be one of"
            raise invalid_value(name, value, f"{kind}: {', '.join(self.choices)}")


class ListOf(NamedTuple):
    """A list without empty elements; possibly restricted to some, to one time each, and to at least one."""

    choices: tuple[str, ...] | None = None
    allow_empty: bool = True
    allow_repeats: bool = False

    @property
    def legal(self) -> str:
        """Say what is legal."""
        words = "without empty elements" if self.allow_repeats else "without empty or repeated elements"
        if self.choices is not None:
            words += ", elements out of: " + ", ".join(self.choices)
        return words if self.allow_empty else words + ", not empty"

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the value is legal."""
        if not value and not self.allow_empty:
            legal = "any non-empty value" if self.choices is None else f"[{', '.join(self.choices)}]"
            raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: {legal}")
        if "" in value:
            raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
        if not self.allow_repeats and len(set(value)) != len(value):
            raise InvalidConfig(f"Configuration '{name}' values must not be duplicated.")
        if self.choices is not None:
            for element in value:
                if element not in self.choices:
                    raise invalid_value(name, element, f"String must be one of: {', '.join(self.choices)}")


class NonEmpty(NamedTuple):
    """A text of at least one character."""

    @property
    def legal(self) -> str:
        """Say what is legal."""
        return "not empty"

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the value is legal."""
        if value == "":
            raise invalid_value(name, value, "String must be non-empty")


class Matching(NamedTuple):
    """A text, or each element of a list, of a given shape; the pattern is compiled when first used, not at start."""

    pattern: str
    shape: str
    whole: str | None = None
    """A text that is legal on its own although it lacks the shape."""

    @property
    def legal(self) -> str:
        """Say what is legal."""
        return self.shape if self.whole is None else f"{self.shape}, or {self.whole or 'empty'}"

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the value is legal."""
        elements = value if isinstance(value, tuple) else (value,)
        if self.whole is not None and elements == (self.whole,):
            return
        for element in elements:
            if not re.fullmatch(self.pattern, element):
                shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
                raise invalid_value(name, shown, f"Expected {self.legal}")
