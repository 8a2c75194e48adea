"""What commands print: lines and JSON, on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, each with its end."""
    write = sys.stdout.write
    for line in lines:
        write(f"{line}\n")


def print_json(value: Any) -> None:
    """Print one value as one line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
