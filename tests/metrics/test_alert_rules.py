"""The alert rules on made-up series, by promtool: each fires on its own and none on those of a healthy broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness.prometheus_server import promtool
from tests.metrics.rule_cases import CASES, HEALTHY, LENGTH, Case

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "docker" / "prometheus"
RULES = DIRECTORY / "alerts.yml"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
TEXT = RULES.read_text(encoding="utf-8")
# One block for each alert, up to the next.
BLOCKS = {found[1]: found[0] for found in re.finditer(r"- alert: (\w+)\n(?:(?! *- alert: ).*\n)*", TEXT)}
FIRING = 'sum by (alertname) (ALERTS{alertstate="firing"})'


def test_promtool_accepts_rules_and_configuration() -> None:
    assert f"{len(BLOCKS)} rules found" in promtool("check", "rules", str(RULES))
    promtool("check", "config", str(DIRECTORY / "prometheus.yml"))


def test_each_rule_is_tried() -> None:
    assert {case.alert for case in CASES} == BLOCKS.keys()


def test_the_healthy_broker_has_every_metric_that_a_rule_asks_for() -> None:
    known = {series.partition("{")[0] for series in HEALTHY}
    for alert, block in BLOCKS.items():
        asked = set(re.findall(r"(\w+)\{\s*job=\"odradek\"", block))
        assert asked and asked <= known, alert


@pytest.mark.parametrize("alert", sorted(BLOCKS))
def test_a_rule_says_how_bad_it_is_and_where_to_read_on(alert: str) -> None:
    block = BLOCKS[alert]
    assert re.search(r"labels: \{severity: (critical|warning)\}", block)
    assert "summary: " in block and "description: " in block
    assert f"runbook: docs/operations.md#{alert.lower()}\n" in block
    assert f'<a id="{alert.lower()}"></a>' in OPERATIONS


def test_the_runbook_knows_no_other_rules() -> None:
    assert set(re.findall(r'<a id="(odradek\w+)"></a>', OPERATIONS)) == {alert.lower() for alert in BLOCKS}


def test_each_rule_fires_when_it_must_and_only_then(tmp_path: Path) -> None:
    tests = [_quiet(), *(_case(case) for case in CASES)]
    path = tmp_path / "tests.json"  # JSON is YAML
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(path))


def _quiet() -> dict[str, Any]:
    return _test("a healthy broker", HEALTHY, [(minute, ()) for minute in range(0, LENGTH, 10)])


def _case(case: Case) -> dict[str, Any]:
    values = {**HEALTHY, **case.series}
    return _test(case.alert, values, [(case.minute - 1, ()), (case.minute, (case.alert,))])


def _test(name: str, values: Mapping[str, str], firing: Iterable[tuple[int, Iterable[str]]]) -> dict[str, Any]:
    """Say which alerts, and no others, fire in which minutes."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": value} for series, value in values.items()],
        "promql_expr_test": [
            {
                "expr": FIRING,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)],
            }
            for minute, alerts in firing
        ],
    }
