"""The table of what public dashboards query says of each name whether it is there, by which way, or why not."""

from __future__ import annotations

import re
from pathlib import Path

from broker.metrics.catalog.row import Family
from tests.metrics.public import FAMILIES, NAMES, SERVED, SOURCES

KAFKA_NAMES = Path(__file__).resolve().parents[2] / "docker" / "prometheus" / "kafka_names.yml"


def test_names_are_sorted_and_none_is_there_twice() -> None:
    names = [name.metric for name in NAMES]
    assert names == sorted(set(names))


def test_a_name_that_is_not_served_has_a_reason_and_no_other() -> None:
    assert {name.served for name in NAMES} == set(SERVED)
    assert not [name for name in NAMES if (name.served == "no") != (name.reason != "-")]


def test_names_belong_to_families_that_are_known() -> None:
    assert {name.family for name in NAMES} <= set(FAMILIES)
    ours = {Family.JMX.value, Family.KAFKA_EXPORTER.value, "process"}
    assert {name.family for name in NAMES if name.served != "no"} <= ours


def test_it_says_where_each_name_was_seen() -> None:
    assert all(name.dashboards for name in NAMES)
    assert {source for name in NAMES for source in name.dashboards} == SOURCES


def test_the_rules_record_just_what_the_table_leaves_to_them() -> None:
    recorded = re.findall(r"record: (\w+)", KAFKA_NAMES.read_text(encoding="utf-8"))
    assert len(recorded) == len(set(recorded))
    assert set(recorded) == {name.metric for name in NAMES if name.served == "rule"}
