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


def write_all(data: bytes | bytearray) -> None:
    """Write bytes to standard output, all of them: unbuffered (PYTHONUNBUFFERED), one write may take a part only."""
    rest = memoryview(data)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()
