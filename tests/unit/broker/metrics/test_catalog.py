"""The catalog as a whole: what no single row can see."""

from __future__ import annotations

from broker.metrics.catalog.row import Family
from config.keys.own import METRIC_FAMILIES


def test_the_families_are_those_that_the_setting_names():
    assert tuple(family.value for family in Family) == METRIC_FAMILIES
