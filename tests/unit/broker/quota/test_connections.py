"""How fast connections may be made, on a clock that the test moves."""

from __future__ import annotations

import pytest

from broker.quota import connections as connections_module
from broker.quota.connections import ConnectionRates
from broker.quota.kind import EXPIRY_MS
from broker.quota.rates import Windows
from config.views import ConnectionLimits, ListenerLimits

HERE = "127.0.0.1"


class Bench:
    """Rates of two listeners, and their clock."""

    def __init__(self, *listeners: str) -> None:
        self.now_ms = 0
        self.rates = ConnectionRates(Windows(), lambda: self.now_ms, listeners or ("INTERNAL", "PUBLIC"), "INTERNAL")

    def connect(self, listener: str, times: int) -> list[int]:
        return [self.rates.delay_ms(listener) for _ in range(times)]

    def come(self, host: str, times: int) -> list[int]:
        return [self.rates.refusal_ms("PUBLIC", host) for _ in range(times)]

    def set_ip(self, **quotas: float) -> tuple[str, ...]:
        """Set quotas of addresses, whose names may have underscores for dots; `any` is the default."""
        names = {None if name == "any" else name.replace("_", "."): rate for name, rate in quotas.items()}
        return self.rates.follow({(("ip", name),): {"connection_creation_rate": rate} for name, rate in names.items()})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_is_counted_without_a_limit(bench: Bench) -> None:
    assert not bench.rates.is_active
    bench.rates.limit(ConnectionLimits())
    assert not bench.rates.is_active
    bench.rates.limit(ConnectionLimits(max_connection_creation_rate=3))
    assert bench.rates.is_active
    bench.rates.limit(ConnectionLimits())
    bench.set_ip(any=4)
    assert bench.rates.is_active
    bench.set_ip()
    assert not bench.rates.is_active


def test_over_the_rate_of_the_broker_accepting_rests_for_a_window_at_most(bench: Bench) -> None:
    bench.rates.limit(ConnectionLimits(max_connection_creation_rate=1))
    assert bench.connect("PUBLIC", 12) == [0] * 10 + [1_000, 1_000]
    assert bench.rates.throttled_ms == {("PUBLIC", "listener"): 2_000}


def test_a_rate_of_nothing_lets_one_in_for_each_window(bench: Bench) -> None:
    bench.rates.limit(ConnectionLimits(max_connection_creation_rate=0))
    assert bench.connect("PUBLIC", 2) == [1_000, 1_000]


def test_the_listener_between_brokers_is_held_to_its_own_rate_only(bench: Bench) -> None:
    of_internal = (("internal", ListenerLimits(max_connection_creation_rate=2)),)
    bench.rates.limit(ConnectionLimits(max_connection_creation_rate=1, of_listeners=of_internal))
    assert bench.connect("PUBLIC", 11)[-1] > 0
    assert bench.connect("INTERNAL", 21) == [0] * 20 + [500]


def test_a_single_listener_is_not_protected() -> None:
    bench = Bench("INTERNAL")
    bench.rates.limit(ConnectionLimits(max_connection_creation_rate=1))
    assert bench.connect("INTERNAL", 11)[-1] > 0


def test_a_listener_has_a_rate_of_its_own_within_that_of_the_broker(bench: Bench) -> None:
    of_public = (("public", ListenerLimits(max_connection_creation_rate=2)),)
    bench.rates.limit(ConnectionLimits(of_listeners=of_public))
    assert bench.connect("PUBLIC", 21)[19:] == [0, 500]
    assert not any(bench.connect("INTERNAL", 100))


def test_an_address_over_its_rate_is_sent_away_and_counts_nowhere(bench: Bench) -> None:
    bench.rates.limit(ConnectionLimits(max_connection_creation_rate=2))
    bench.set_ip(**{"127_0_0_1": 1.0})
    for attempt in range(14):
        delay_ms = bench.rates.delay_ms("PUBLIC")
        refusal_ms = bench.rates.refusal_ms("PUBLIC", HERE)
        assert (delay_ms, refusal_ms) == (0, 0 if attempt < 10 else 1_000)
    assert bench.connect("PUBLIC", 11) == [0] * 10 + [500], "ten were let in before"
    assert bench.rates.throttled_ms["PUBLIC", "ip"] == 4_000
    assert bench.come("10.0.0.9", 50) == [0] * 50


def test_the_default_holds_for_each_address_that_has_no_quota(bench: Bench) -> None:
    bench.set_ip(**{"any": 1.0, "10_0_0_2": 2.0})
    assert bench.come("10.0.0.1", 11)[-1] > 0
    assert bench.come("10.0.0.2", 20) == [0] * 20
    assert bench.come("10.0.0.3", 10) == [0] * 10


def test_one_address_has_many_spellings() -> None:
    bench = Bench()
    bench.rates.follow({(("ip", "0:0:0:0:0:0:0:1"),): {"connection_creation_rate": 1.0}})
    assert bench.come("::1", 11)[-1] > 0
    bench.rates.follow({(("ip", "10.0.0.1"),): {"connection_creation_rate": 1.0}})
    assert bench.come("::ffff:10.0.0.1", 11)[-1] > 0


def test_a_host_name_holds_once_it_is_known_what_it_stands_for(bench: Bench) -> None:
    assert bench.set_ip(**{"a_example": 1.0, "10_0_0_1": 5.0}) == ("a.example",)
    assert bench.come("10.0.0.7", 11) == [0] * 11
    bench.rates.note_address("a.example", "10.0.0.7")
    assert bench.come("10.0.0.7", 11)[-1] > 0
    assert bench.set_ip(**{"a_example": 2.0}) == ()
    bench.set_ip()
    assert bench.set_ip(**{"a_example": 2.0}) == ("a.example",), "it may stand for another one by now"


def test_addresses_are_forgotten_after_an_hour_and_when_there_are_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "MAX_USES", 2)
    bench.set_ip(any=1)
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        bench.come(host, 10)
    assert bench.come("10.0.0.3", 1) == [1_000]
    assert bench.come("10.0.0.1", 1) == [0], "it had to make room"
    bench.now_ms += EXPIRY_MS
    bench.rates.forget_idle()
    assert bench.come("10.0.0.3", 10) == [0] * 10
