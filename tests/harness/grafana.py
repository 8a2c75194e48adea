"""The dashboards as Grafana would read them: their panels, and what each asks Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).resolve().parents[2] / "docker" / "grafana"


class Question(NamedTuple):
    """One expression of a panel, with the variables still in it."""

    dashboard: str
    panel: str
    expression: str
    instant: bool


def dashboards() -> dict[str, dict[str, Any]]:
    """Return the models by their uids."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(_files())}


def panels(model: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the panels of a dashboard, those in folded rows included, but no rows."""
    for panel in model["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", ())
        else:
            yield panel


def questions() -> list[Question]:
    """Return every expression of every panel."""
    return [
        Question(uid, panel["title"], target["expr"], target.get("instant", False))
        for uid, model in dashboards().items()
        for panel in panels(model)
        for target in panel["targets"]
    ]


def variables() -> list[tuple[str, str, str]]:
    """Return every variable that is filled by a query: dashboard, name, query."""
    return [
        (uid, variable["name"], variable["definition"])
        for uid, model in dashboards().items()
        for variable in model["templating"]["list"]
        if variable["type"] == "query"
    ]


def filled_in(expression: str, values: Mapping[str, str]) -> str:
    """Put values in the place of variables; one that has none is a failed assertion."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        assert name in values, f"unknown variable ${name} in {expression}"
        return values[name]

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, expression)


def _files() -> Iterator[Path]:
    return (DIRECTORY / "dashboards").glob("*.json")
