"""Workers that run the suite side by side keep out of each other's way."""

from __future__ import annotations

import pytest

from tests.harness import ports


def ports_of(worker: str | None, count: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Give ports as a fresh worker would be given them; None for a run without workers."""
    monkeypatch.setattr(ports, "_handed_out", 0)
    for name, value in (("PYTEST_XDIST_WORKER", worker), ("PYTEST_XDIST_WORKER_COUNT", "3")):
        monkeypatch.delenv(name, raising=False) if worker is None else monkeypatch.setenv(name, value or "")
    return {ports.free_port() for _ in range(count)}


def test_no_port_is_given_to_two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [ports_of(worker, 1500, monkeypatch) for worker in ("gw0", "gw1", "gw2")]
    assert len(set.union(*given)) == 4500
    assert all(ports.FIRST_PORT <= port < ports.FIRST_PORT + ports.PORT_COUNT for port in set.union(*given))


def test_a_run_without_workers_has_all_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({port % 3 for port in ports_of(None, 100, monkeypatch)}) == 3  # some ports are taken by others
