"""Files that say something of partitions, as Kafka's tools take them: `{"version": 1, "partitions": [{…}, …]}`."""

from __future__ import annotations

import json
from typing import Any

from broker.cli.errors import CommandError

VERSION = 1


def read_rows(path: str) -> list[Any]:
    """Return what stands under `partitions`, as it is. Raises: CommandError."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise CommandError(f"{path}: expected an object with a list of partitions")
    if content.get("version", VERSION) != VERSION:
        raise CommandError(f"{path}: Not supported version field value {content['version']}")
    rows = content.get("partitions")
    if not isinstance(rows, list):
        raise CommandError(f"{path}: Missing partitions field")
    return rows
