"""The quota of cluster changes, as one request meets it: partitions are charged topic by topic, before they change.

Newer versions of the requests know an error for what does not fit: nothing is charged while the quota is overdrawn, and
what is charged may overdraw it. Older ones do not: everything is carried out, and whoever overdraws is throttled.
Source: ControllerMutationQuotaManager, KIP-599.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.quota.kind import Use
from broker.quota.rates import TokenBucket


class MutationQuota:
    """What both have in common: how long they throttle."""

    def __init__(self, use: Use[TokenBucket], now_ms: Callable[[], int]) -> None:
        self.use = use
        self._now_ms = now_ms
        self._until_ms = 0

    def charge(self, partitions: int) -> bool:
        """Take partitions that are to be created or deleted off the quota; False: they must not be."""
        raise NotImplementedError

    def throttle_ms(self) -> int:
        """Return how much is left now of the time that the last charge asked to wait."""
        return max(0, self._until_ms - self._now_ms())


class StrictQuota(MutationQuota):
    """Refuses what comes while the quota is overdrawn."""

    def charge(self, partitions: int) -> bool:
        """Charge or refuse."""
        now_ms = self._now_ms()
        bucket, limit = self.use.measure, self.use.limit
        throttle_ms = bucket.throttle_ms(limit, now_ms)
        if bucket.tokens(limit, now_ms) < 0:
            self._until_ms = now_ms + throttle_ms
            return False
        bucket.record(partitions, limit, now_ms)
        return True


class PermissiveQuota(MutationQuota):
    """Lets everything pass, and throttles once the quota is overdrawn."""

    def charge(self, partitions: int) -> bool:
        """Charge."""
        now_ms = self._now_ms()
        bucket, limit = self.use.measure, self.use.limit
        bucket.record(partitions, limit, now_ms)
        throttle_ms = bucket.throttle_ms(limit, now_ms)
        if throttle_ms:
            self._until_ms = now_ms + throttle_ms
        return True
