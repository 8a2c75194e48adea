"""How fast connections may be made: to the broker, to a listener, and from an address.

Over the rate of the broker or of a listener, accepting rests: the connection that went over it waits, and so do those
behind it. Who goes over the rate of its address is sent away, but only once the throttle time is over, or it would just
come again. Both times are a window at most. Where there are several listeners, the one between brokers is not held to
the broker's rate. Only limits that are set are measured. Source: ConnectionQuotas, KIP-402, KIP-612.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from broker.quota.entities import IP, Entity, EntityQuotas, limits_of
from broker.quota.kind import EXPIRY_MS, MAX_USES
from broker.quota.rates import SampledRate, Windows
from config.views import INT_MAX, ConnectionLimits

KEY = "connection_creation_rate"
BROKER = ""
"""Stands for the whole broker among the names of listeners."""


class ConnectionRates:
    """Counts new connections against the limits."""

    def __init__(
        self, windows: Windows, now_ms: Callable[[], int], listeners: Sequence[str], inter_broker_listener: str
    ) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._protected = inter_broker_listener if len(listeners) > 1 else None
        self._listeners = tuple(listeners)
        self._limits: dict[str, int] = {}  # by listener, without those that have none; replaced by limit
        self._rates: dict[str, SampledRate] = {}
        self._quotas: dict[Entity, float] = {}  # of addresses; replaced by follow
        self._addresses: dict[str, str] = {}  # what host names with a quota stand for, as far as that is known
        self._of_address: dict[str, float] = {}
        self._of_any_address: float | None = None
        self._address_rates: dict[str, SampledRate] = {}  # the one used longest ago first
        self._used_ms: dict[str, int] = {}  # when each of them was used
        self.throttled_ms: Counter[tuple[str, str]] = Counter()
        """By listener, and whether a listener's rate or an address's asked for it."""
        self.is_active = False
        """Whether anything is limited. Read with every connection."""

    def limit(self, limits: ConnectionLimits) -> None:
        """Let these limits of broker and listeners hold from now on."""
        wanted = {BROKER: limits.max_connection_creation_rate}
        wanted.update((name, limits.of_listener(name).max_connection_creation_rate) for name in self._listeners)
        self._limits = {name: rate for name, rate in wanted.items() if rate != INT_MAX}
        self._rates = {name: rate for name, rate in self._rates.items() if name in self._limits}
        self._decide()

    def follow(self, quotas: EntityQuotas) -> tuple[str, ...]:
        """Let these quotas of addresses hold from now on; return the host names that have to be looked up."""
        self._quotas = {entity: limit for entity, limit in limits_of(quotas, KEY).items() if entity[0][0] == IP}
        names = [name for ((_, name),) in self._quotas if name is not None]
        self._addresses = {name: self._addresses[name] for name in names if name in self._addresses}
        self._decide()
        return tuple(name for name in names if self._address(name) is None)

    def note_address(self, name: str, address: str) -> None:
        """Take in what a host name stands for."""
        self._addresses[name] = address
        self._decide()

    def delay_ms(self, listener: str) -> int:
        """Count a connection to a listener; return how long it and those behind it have to wait."""
        now_ms = self._now_ms()
        delay_ms = max(self._count(name, now_ms) for name in self._counted_for(listener))
        if delay_ms:
            self.throttled_ms[listener, "listener"] += delay_ms
        return delay_ms

    def refusal_ms(self, listener: str, host: str) -> int:
        """Count a connection from an address; return after how long it is to be sent away, 0 to let it in.

        One that is sent away counts nowhere.
        """
        address = _normal(host) or host
        quota = self._of_address.get(address, self._of_any_address)
        if quota is None:
            return 0
        now_ms = self._now_ms()
        rate = self._address_rates.pop(address, None)
        if rate is None:
            rate = SampledRate(self._windows, now_ms)
            if len(self._address_rates) >= MAX_USES:
                self._drop(next(iter(self._address_rates)))
        self._address_rates[address] = rate
        self._used_ms[address] = now_ms
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(quota, now_ms), self._windows.size_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            for name in self._counted_for(listener):
                if name in self._rates:
                    self._rates[name].record(-1, now_ms)
            self.throttled_ms[listener, "ip"] += throttle_ms
        return throttle_ms

    def forget_idle(self) -> None:
        """Forget addresses that nobody has come from for long."""
        oldest_ms = self._now_ms() - EXPIRY_MS
        for address in [address for address, used_ms in self._used_ms.items() if used_ms <= oldest_ms]:
            self._drop(address)

    def _drop(self, address: str) -> None:
        del self._address_rates[address]
        del self._used_ms[address]

    def _counted_for(self, listener: str) -> tuple[str, ...]:
        return (listener,) if listener == self._protected else (BROKER, listener)

    def _count(self, name: str, now_ms: int) -> int:
        limit = self._limits.get(name)
        if limit is None:
            return 0
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = SampledRate(self._windows, now_ms)
        rate.record(1, now_ms)
        return min(rate.throttle_ms(limit, now_ms), self._windows.size_ms)

    def _decide(self) -> None:
        """Draw the conclusions of limits, quotas and addresses."""
        limits: Mapping[str | None, float] = {name: limit for ((_, name),), limit in self._quotas.items()}
        self._of_any_address = limits.get(None)
        resolved = ((self._address(name), limit) for name, limit in limits.items() if name is not None)
        self._of_address = {address: limit for address, limit in resolved if address is not None}
        self.is_active = bool(self._limits or self._quotas)

    def _address(self, name: str) -> str | None:
        return _normal(name) or self._addresses.get(name)


def _normal(host: str) -> str | None:
    """Return an address in its one spelling, as IPv4 if it is one of IPv4 in IPv6; None for a host name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
