"""What a broker has on disk, read with the tests' own parser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.harness import batches

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def segment_paths(data_directory: Path, topic: str, partition: int = 0) -> Sequence[Path]:
    """Return the .log files of a partition in offset order."""
    return sorted((data_directory / f"{topic}-{partition}").glob("*.log"))


def stored_batches(data_directory: Path, topic: str, partition: int = 0) -> list[batches.Batch]:
    """Return every batch of a partition as it stands in its segment files."""
    return [
        batch for path in segment_paths(data_directory, topic, partition) for batch in batches.parse(path.read_bytes())
    ]


def stored_codecs(data_directory: Path, topic: str, partition: int = 0) -> set[str]:
    """Return the names of the codecs that a partition's batches carry in their attributes.

    Clients send a batch that compression would not make smaller as it is, so "none" is told only if all are.
    """
    found = {CODECS[batch.codec] for batch in stored_batches(data_directory, topic, partition)}
    return found - {"none"} or found
