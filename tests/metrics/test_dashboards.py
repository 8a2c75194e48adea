"""The dashboards are what their source makes of them, and what Grafana can read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.metrics.catalog import METRICS
from tests.harness import grafana

ROOT = Path(__file__).resolve().parents[2]
BOARDS = grafana.dashboards()
COLUMNS = 24
# What Prometheus itself says of a target, and prometheus_client of the process.
FROM_ELSEWHERE = re.compile(r"^(up|ALERTS|scrape_\w+|process_\w+)$")
NAME = re.compile(r"\b([A-Za-z_]\w+)\{")


@pytest.fixture(params=sorted(BOARDS))
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    return BOARDS[request.param]


def exported() -> set[str]:
    """Return the names of the series of the catalog."""
    names: set[str] = set()
    for metric in METRICS:
        suffixes = {
            "counter": ("_total",),
            "gauge": ("",),
            "histogram": ("_bucket", "_count", "_sum"),
            "summary": ("", "_count", "_sum"),
        }
        names |= {metric.name + suffix for suffix in suffixes[metric.kind.value]}
    return names


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(grafana.DIRECTORY / "generator"), str(tmp_path)], check=True, timeout=60)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    stored = {path.name: path.read_text() for path in (grafana.DIRECTORY / "dashboards").iterdir()}
    assert stored == made, "run: make docs"


def test_each_file_is_named_by_its_uid_and_titles_are_not_shared() -> None:
    assert {stem: model["uid"] for stem, model in BOARDS.items()} == {stem: stem for stem in BOARDS}
    assert len({model["title"] for model in BOARDS.values()}) == len(BOARDS) > 0


def test_a_dashboard_has_what_grafana_needs(board: dict[str, Any]) -> None:
    assert board["schemaVersion"] >= 36
    assert "id" not in board  # Grafana gives it
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names[:2] == ["datasource", "instance"]
    assert all(one["datasource"]["uid"] == "${datasource}" for one in board["templating"]["list"][1:])
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


def test_each_panel_says_what_it_shows_in_which_unit(board: dict[str, Any]) -> None:
    for panel in grafana.panels(board):
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"], panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


def test_panels_lie_on_the_page_and_not_on_each_other(board: dict[str, Any]) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_the_columns_of_a_table_are_labels_and_values_of_its_queries(board: dict[str, Any]) -> None:
    for panel in grafana.panels(board):
        if panel["type"] != "table":
            continue
        (shown,) = (one["options"]["include"]["names"] for one in panel["transformations"] if "include" in str(one))
        values = [name for name in shown if name.startswith("Value")]
        several = len(panel["targets"]) > 1
        expected = [f"Value #{target['refId']}" for target in panel["targets"]] if several else []
        assert values == expected, panel["title"]
        for target in panel["targets"]:
            grouped = re.search(r"\bby \(([^)]*)\)", target["expr"])
            assert grouped and set(grouped[1].split(", ")) == set(shown) - set(values), panel["title"]


def test_every_metric_that_is_asked_for_is_in_the_catalog() -> None:
    known = exported()
    for question in grafana.questions():
        for name in NAME.findall(question.expression):
            assert name in known or FROM_ELSEWHERE.match(name), question


def test_provisioning_names_the_folder_that_holds_the_dashboards() -> None:
    provider = (grafana.DIRECTORY / "provisioning" / "dashboards" / "odradek.yaml").read_text()
    source = (grafana.DIRECTORY / "provisioning" / "datasources" / "prometheus.yaml").read_text()
    assert "path: /var/lib/grafana/dashboards" in provider
    assert "type: prometheus" in source
    assert all(file.startswith("apiVersion: 1\n") for file in (provider, source))
