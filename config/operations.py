"""What one operation of IncrementalAlterConfigs makes of a stored value.

Lists are extended by what they lack and relieved of what they have; a list that is not set starts from the key's
built-in default, whatever lies between. Source: ConfigurationControlManager.incrementalAlterConfigResource.
"""

from __future__ import annotations

from enum import IntEnum

from config.key import ConfigKey, format_value, parse_value


class Operation(IntEnum):
    """What is done to one value, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def changed_list(row: ConfigKey, stored: str | None, operation: Operation, text: str) -> str:
    """Return a list's text after elements were appended or subtracted; empty elements do not count."""
    before = row.default if stored is None else parse_value(row.name, row.type, stored)
    elements = [element for element in before or () if element]
    named = dict.fromkeys(element for element in parse_value(row.name, row.type, text) if element)
    if operation is Operation.APPEND:
        present = set(elements)
        elements += [element for element in named if element not in present]
    else:
        elements = [element for element in elements if element not in named]
    return format_value(tuple(elements)) or ""
