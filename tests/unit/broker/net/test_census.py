"""What open connections wait for and hold, counted when somebody asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.metrics.sources import ITEMS_PER_BREATH
from broker.net.census import Held, by_listener, held_by, waiting_by_api


def connection(**values: Any) -> Any:
    quiet = {
        "kept": b"",
        "own": None,
        "own_filled": 0,
        "outbox": SimpleNamespace(size_bytes=0),
        "waiting": None,
        "muted": False,
        "context": SimpleNamespace(api_key=1),
        "listener": SimpleNamespace(name="PLAINTEXT"),
    }
    return SimpleNamespace(**{**quiet, **values})


def test_what_is_held_is_added_up() -> None:
    some = [
        connection(kept=b"abc", outbox=SimpleNamespace(size_bytes=10)),
        connection(own=bytearray(100), own_filled=40, outbox=SimpleNamespace(size_bytes=5)),
    ]
    assert list(held_by(some))[-1] == Held(received=43, buffers=100, unsent=15)


def test_requests_that_wait_are_counted_by_api_and_clients_that_are_muted_are_not_waiting() -> None:
    some = [
        connection(waiting=object()),
        connection(waiting=object(), context=SimpleNamespace(api_key=11)),
        connection(waiting=object(), muted=True),
        connection(),
    ]
    assert list(waiting_by_api(some))[-1] == {1: 1, 11: 1}


def test_connections_are_counted_by_listener() -> None:
    assert list(by_listener([connection(), connection()]))[-1] == {"PLAINTEXT": 2}


def test_a_long_walk_pauses() -> None:
    many = [connection()] * (3 * ITEMS_PER_BREATH)
    for walk in (held_by, waiting_by_api, by_listener):
        assert [one is None for one in walk(many)] == [True, True, True, False]
