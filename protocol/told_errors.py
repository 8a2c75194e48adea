"""Which error codes a response tells: a walk over its declaration, compiled once for each type.

Only the fields that may lead to a code are looked at, so a response without any costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.message import field_specs
from protocol.primitives import ArrayType

ERROR_FIELDS = frozenset(("error_code", "partition_error_code"))

Finder = Callable[[Any, list[int]], None]
"""Appends every code of a response that is not 0 to a list."""


def compile_finder(message_type: type) -> Finder:
    """Build the walk over responses of a type."""
    scope: dict[str, Any] = {}
    body = _walk(message_type, "message", 1)
    exec("\n".join(("def find(message, found):", *(body or ["    pass"]))), scope)
    finder: Finder = scope["find"]
    return finder


def _walk(message_type: type, variable: str, depth: int) -> list[str]:
    """Return the statements that look at one struct; none where it leads to no code."""
    indent = "    " * depth
    lines: list[str] = []
    for name, spec in field_specs(message_type).items():
        attribute = f"{variable}.{name}"
        if name in ERROR_FIELDS:
            lines += [f"{indent}if {attribute}:", f"{indent}    found.append({attribute})"]
            continue
        inner = f"inner_{depth}"
        if isinstance(spec.codec, ArrayType):
            element, opening = spec.codec.element, f"{indent}for {inner} in {attribute} or ():"
        else:
            element, opening = spec.codec, f"{indent}for {inner} in ({attribute},) if {attribute} is not None else ():"
        if isinstance(element, type) and (below := _walk(element, inner, depth + 1)):
            lines += [opening, *below]
    return lines
