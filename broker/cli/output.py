"""What commands print: lines, tables and JSON, on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

COLUMN_GAP = "  "


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, each with its end."""
    write = sys.stdout.write
    for line in lines:
        write(f"{line}\n")


def print_json(value: Any) -> None:
    """Print one value as one line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lay out rows under a head, each column as wide as its widest cell; no cell gives `-`, as in Kafka's tools."""
    cells = [tuple(head), *(tuple("-" if cell is None else str(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        COLUMN_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
