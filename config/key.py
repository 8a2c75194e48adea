"""A row of the configuration table, its types, and text ↔ value for each type.

Text is trimmed before it is parsed. INT, SHORT and LONG are Java's: 32, 16 and 64 bits, plain decimal digits. A LIST is
split at commas, its elements trimmed; the empty text is the empty list.

Source: org.apache.kafka.common.config.ConfigDef; the codes are those of DescribeConfigs v3.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Literal, NamedTuple, Protocol

from config.errors import invalid_value


class ConfigType(IntEnum):
    """Type of a value, numbered as DescribeConfigs reports it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


Importance = Literal["high", "medium", "low"]
Scope = Literal["broker", "topic", "group", "client-metrics"]
Update = Literal["read-only", "per-broker", "cluster-wide"]

HIDDEN = "[hidden]"
"""Stands for the value of a PASSWORD wherever a person or a client could read it."""


class Validator(Protocol):
    """What a value must fulfil beyond its type."""

    @property
    def legal(self) -> str:
        """Say what is legal, for documents and error lines."""

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidConfig unless the parsed value is legal."""


class Synonym(NamedTuple):
    """A broker key that supplies another key's value, and how its number converts."""

    name: str
    factor: int = 1
    floor: int | None = None
    """Values below it count as it: any negative broker retention means -1."""

    def convert(self, value: Any) -> Any:
        """Return the broker key's value in the unit of the topic key."""
        if self.factor != 1:
            value = value * self.factor
        if self.floor is not None and value < self.floor:
            return self.floor
        return value


class ConfigKey(NamedTuple):
    """One row: everything the broker knows about a key."""

    name: str
    type: ConfigType
    default: Any
    validator: Validator | None
    importance: Importance
    scope: Scope
    update: Update
    synonyms: tuple[Synonym, ...]
    internal: bool
    doc: str

    @property
    def is_sensitive(self) -> bool:
        """Tell whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def is_read_only(self) -> bool:
        """Tell whether only the static configuration can set the key."""
        return self.update == "read-only"

    @property
    def default_text(self) -> str | None:
        """Return the default as a properties file would spell it; None when there is none."""
        return format_value(self.default)

    @property
    def legal(self) -> str:
        """Say in a few words which values the key takes."""
        words = _TYPE_WORDS[self.type]
        return words if self.validator is None else f"{words}, {self.validator.legal}"

    def parse(self, text: str) -> Any:
        """Turn text into the value, checked; raises InvalidConfig in Kafka's wording."""
        value = parse_value(self.name, self.type, text)
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    def canonical(self, text: str) -> str:
        """Return the spelling under which a valid value is stored: trimmed, booleans in lower case, lists as sets."""
        if self.type is ConfigType.BOOLEAN:
            return text.strip().lower()
        if self.type is ConfigType.LIST:
            return ",".join(dict.fromkeys(parse_value(self.name, self.type, text)))
        return text.strip()


_TYPE_WORDS = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a 32-bit integer",
    ConfigType.SHORT: "a 16-bit integer",
    ConfigType.LONG: "a 64-bit integer",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a secret",
}

_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_COMMA = re.compile(r"\s*,\s*")


def parse_value(name: str, config_type: ConfigType, text: str) -> Any:
    """Parse text as a type without any key's validator."""
    text = text.strip()
    if config_type in _BITS:
        limit = 1 << (_BITS[config_type] - 1)
        if _INTEGER.fullmatch(text) and -limit <= (number := int(text)) < limit:
            return number
        raise invalid_value(name, text, f"Not a number of type {config_type.name}")
    if config_type is ConfigType.BOOLEAN:
        if (lowered := text.lower()) in ("true", "false"):
            return lowered == "true"
        raise invalid_value(name, text, "Expected value to be either true or false")
    if config_type is ConfigType.DOUBLE:
        if _DECIMAL.fullmatch(text):
            return float(text)
        raise invalid_value(name, text, "Not a number of type DOUBLE")
    if config_type is ConfigType.LIST:
        return tuple(_COMMA.split(text)) if text else ()
    return text


def format_value(value: Any) -> str | None:
    """Spell a value as Kafka's tools do; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _format_double(value: float) -> str:
    """Spell a double as Java does, so that DescribeConfigs compares equal: 1.7976931348623157E308."""
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
