"""What is kept of pushed metrics stays within its bounds."""

from __future__ import annotations

import pytest

from broker.telemetry import store
from broker.telemetry.otlp import Point
from broker.telemetry.store import ClientMetricsStore


def gauge(name: str, value: float, **attributes: str) -> Point:
    return Point(name, tuple(attributes.items()), value, False)


def series(kept: ClientMetricsStore) -> dict[tuple[str, str, str], float]:
    return {(one.client_instance_id, one.metric, one.attributes): one.value for one in kept.samples()}


def test_the_last_number_counts_and_deltas_add_up() -> None:
    kept = ClientMetricsStore()
    kept.put("i", "client", [gauge("g", 1, a="b", c="d"), Point("n", (), 2, True)])
    kept.put("i", "client", [gauge("g", 5, a="b", c="d"), Point("n", (), 3, True)])
    assert series(kept) == {("i", "g", "a=b,c=d"): 5, ("i", "n", ""): 5}
    assert {one.client_id for one in kept.samples()} == {"client"}
    assert (len(kept), kept.series_count, kept.push_count, kept.dropped_count) == (1, 2, 2, 0)


def test_a_client_that_is_forgotten_leaves_nothing() -> None:
    kept = ClientMetricsStore()
    kept.put("i", "c", [gauge("g", 1)])
    kept.forget("i")
    kept.forget("never seen")
    assert (series(kept), len(kept), kept.series_count) == ({}, 0, 0)


def test_new_series_beyond_the_bounds_are_dropped_and_known_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_SERIES_PER_CLIENT", 2)
    monkeypatch.setattr(store, "MAX_SERIES", 3)
    kept = ClientMetricsStore()
    kept.put("i", "c", [gauge(name, 1) for name in "abc"])
    kept.put("j", "c", [gauge(name, 1) for name in "ab"])
    kept.put("i", "c", [gauge("a", 7)])
    assert series(kept) == {("i", "a", ""): 7, ("i", "b", ""): 1, ("j", "a", ""): 1}
    assert kept.dropped_count == 2


def test_a_new_client_takes_the_place_of_the_one_silent_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_CLIENTS", 2)
    kept = ClientMetricsStore()
    for instance in ("i", "j", "i", "k"):
        kept.put(instance, "c", [gauge("g", 1)])
    assert {one[0] for one in series(kept)} == {"i", "k"}
    assert kept.series_count == 2


def test_labels_are_cut() -> None:
    kept = ClientMetricsStore()
    kept.put("i", "c" * 999, [gauge("g" * 999, 1, a="b" * 999)])
    [sample] = kept.samples()
    assert {len(text) for text in (sample.client_id, sample.metric, sample.attributes)} == {store.MAX_LABEL_CHARACTERS}
