"""Reads the tables of what public dashboards query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).resolve().parent
SERVED = ("yes", "rule", "no")
FAMILIES = ("jmx", "kafka_exporter", "process", "jvm", "zookeeper", "host", "other")


class PublicName(NamedTuple):
    """One name: who queries it with which labels, and whether we serve it or why not."""

    metric: str
    labels: tuple[str, ...]
    family: str
    served: str
    dashboards: tuple[str, ...]
    reason: str


def _rows(name: str) -> Iterator[list[str]]:
    """Give the rows below the heading; lines with # are remarks."""
    lines = (DIRECTORY / name).read_text(encoding="utf-8").splitlines()
    _, *rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return iter(rows)


def _several(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


NAMES = tuple(
    PublicName(metric, _several(labels), family, served, _several(boards), reason)
    for metric, labels, family, served, boards, reason in _rows("public_names.tsv")
)
# Ids of the dashboards and rule files that were read.
SOURCES = frozenset(row[0] for row in _rows("public_dashboards.tsv"))
