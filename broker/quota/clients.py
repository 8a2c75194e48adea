"""What clients may produce, fetch, keep the loop busy, and change of the cluster; and how far they have gone.

A request of a client that has a quota is metered as a whole, by a `RequestMeter`; its throttle time is the longest that
any of its quotas asks for. Numbers are Kafka's: a rate is in bytes, percent of a thread, or partitions
created and deleted, a second.

- Produce counts the bytes of the request, fetch those of the response; a fetch that goes over the quota is answered
  with nothing, so nothing is counted, except that the first one for long is always given.
- Of the time of a request counts what it kept the loop busy until it was answered, not what it waited. The percentage
  is of that one loop.
- Throttle times of bytes are as long as it takes, of the loop's time a window at most.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, KafkaApis, RequestHandlerHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from broker.quota.entities import EntityQuotas
from broker.quota.kind import LONGEST_KNOWN_CLIENT, MAX_KNOWN_CLIENTS, QuotaKind, Use
from broker.quota.mutations import MutationQuota, PermissiveQuota, StrictQuota
from broker.quota.rates import INT_MAX, SampledRate, TokenBucket, Windows

NS_PER_PERCENT = 10_000_000
"""A hundredth of a second."""


class ClientQuotas:
    """All quotas of clients, by user and client id."""

    def __init__(self, windows: Windows, controller_windows: Windows, monotonic_ns: Callable[[], int]) -> None:
        self.windows = windows
        self.monotonic_ns = monotonic_ns

        def new_rate(limit: float, now_ms: int) -> SampledRate:
            return SampledRate(windows, now_ms)

        self.produce = QuotaKind("producer_byte_rate", "produce", new_rate)
        self.fetch = QuotaKind("consumer_byte_rate", "fetch", new_rate)
        self.request = QuotaKind("request_percentage", "request", new_rate)
        self.mutation = QuotaKind(
            "controller_mutation_rate",
            "controller_mutation",
            lambda limit, now_ms: TokenBucket(controller_windows, limit, now_ms),
        )
        self.kinds: tuple[QuotaKind[Any], ...] = (self.produce, self.fetch, self.request, self.mutation)
        self.is_active = False
        """Whether any client has a quota. Replaced by follow, read with every request."""
        self._held: dict[tuple[str, str], bool] = {}  # what `holds` has found; emptied when it might be otherwise

    def now_ms(self) -> int:
        """Return the time that rates are measured in."""
        return self.monotonic_ns() // 1_000_000

    def follow(self, quotas: EntityQuotas) -> None:
        """Let these quotas hold from now on, also for connections that are open."""
        for kind in self.kinds:
            kind.follow(quotas)
        self.is_active = any(kind.is_set for kind in self.kinds)
        self._held.clear()

    def holds(self, principal: str, client_id: str) -> bool:
        """Tell whether a client has a quota of any kind: nobody else need be metered."""
        client = principal, client_id
        held = self._held.get(client)
        if held is None:
            user = _user_of(principal)
            held = any(kind.quota(user, client_id) is not None for kind in self.kinds)
            if len(client_id) <= LONGEST_KNOWN_CLIENT:
                if len(self._held) >= MAX_KNOWN_CLIENTS:
                    self._held.clear()
                self._held[client] = held
        return held

    def forget_idle(self) -> None:
        """Forget clients that were not heard of for long."""
        now_ms = self.now_ms()
        for kind in self.kinds:
            kind.forget_idle(now_ms)

    @property
    def measures_time(self) -> bool:
        """Tell whether it matters how long a request keeps the loop busy."""
        return self.request.is_set

    def meter(self, principal: str, client_id: str, request_bytes: int, started_ns: int) -> RequestMeter:
        """Begin to meter a request."""
        return RequestMeter(self, _user_of(principal), client_id, request_bytes, started_ns)


def _user_of(principal: str) -> str:
    return principal.partition(":")[2]


class RequestMeter:
    """One request as it is counted, from its first byte to its answer."""

    __slots__ = (
        "_busy_ns",
        "_client_id",
        "_is_settled",
        "_mutations",
        "_quotas",
        "_request_bytes",
        "_resumed_ns",
        "_throttle_ms",
        "_throttled",
        "_timed",
        "_user",
    )

    def __init__(self, quotas: ClientQuotas, user: str, client_id: str, request_bytes: int, started_ns: int) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._request_bytes = request_bytes
        self._busy_ns = 0
        self._resumed_ns = started_ns
        self._mutations: MutationQuota | None = None
        self._throttle_ms = 0
        self._throttled: Use[Any] | None = None  # whose quota asks for that
        self._is_settled = False  # the time up to here is counted, or does not count
        self._timed: Use[Any] | None = None  # what it was counted by

    # --- what handlers tell ---

    def produced(self, *, is_answered: bool) -> None:
        """Count a produce request. One that gets no answer is not held to its time."""
        now_ms = self._quotas.now_ms()
        use = self._quotas.produce.use(self._user, self._client_id, now_ms)
        if use is not None:
            use.measure.record(self._request_bytes, now_ms)
            self._ask_for(use.measure.throttle_ms(use.limit, now_ms), use)
        if not is_answered:
            self.exempt()

    def fetch_limit_bytes(self) -> int:
        """Return how much a fetch may find at most: more would be over the quota though nothing else was fetched."""
        use = self._quotas.fetch.use(self._user, self._client_id, self._quotas.now_ms())
        if use is None:
            return INT_MAX
        return int(min(use.limit * self._quotas.windows.seconds_allowed_at_once, INT_MAX))

    def may_fetch(self, response_bytes: Callable[[], int]) -> bool:
        """Count the answer to a fetch, unless it must not be given because of this or another quota.

        The first one for long is given whatever its size: a single batch may be larger than all that is allowed at
        once, and its consumer would never get on. Those after it wait the longer.
        """
        now_ms = self._quotas.now_ms()
        self._settle_time(now_ms)
        use = self._quotas.fetch.use(self._user, self._client_id, now_ms)
        if use is not None:
            size = response_bytes()
            is_first = not use.measure.per_second(now_ms)
            use.measure.record(size, now_ms)
            if not is_first:
                self._ask_for(use.measure.throttle_ms(use.limit, now_ms), use)
            if self._throttle_ms:
                use.measure.record(-size, now_ms)
        return not self._throttle_ms

    def mutations(self, *, strict: bool) -> MutationQuota | None:
        """Return the quota that partitions to be created or deleted are charged to, None without one."""
        quota = self._mutations = self.mutations_on_behalf(strict=strict)
        return quota

    def mutations_on_behalf(self, *, strict: bool) -> MutationQuota | None:
        """Return it for changes that the client did not ask for as such: they do not throttle its request."""
        quotas = self._quotas
        use = quotas.mutation.use(self._user, self._client_id, quotas.now_ms())
        if use is None:
            return None
        return StrictQuota(use, quotas.now_ms) if strict else PermissiveQuota(use, quotas.now_ms)

    def exempt(self) -> None:
        """Do not hold the request to its time."""
        self._is_settled = True

    # --- what the dispatcher asks ---

    def settle(self) -> int:
        """Close the account and return the throttle time in milliseconds."""
        now_ms = self._quotas.now_ms()
        self._settle_time(now_ms)
        if self._mutations is not None:
            self._ask_for(self._mutations.throttle_ms(), self._mutations.use)
        if self._throttled is not None:
            self._throttled.note_throttle(self._throttle_ms)
        return self._throttle_ms

    def finish(self) -> None:
        """Count the time since the account was closed: the next request pays for it."""
        if self._timed is not None:
            now_ns = self._quotas.monotonic_ns()
            self._timed.measure.record((now_ns - self._resumed_ns) / NS_PER_PERCENT, now_ns // 1_000_000)

    @coroutine
    def timed(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run `work`, counting only the time that it does not wait."""
        now_ns = self._quotas.monotonic_ns
        step: Callable[[Any], Any] = work.send
        value: Any = None
        while True:
            try:
                awaited = step(value)
            except StopIteration as ended:
                return ended.value
            self._busy_ns += now_ns() - self._resumed_ns
            try:
                value = yield awaited
                step = work.send
            except BaseException as failure:
                value = failure
                step = work.throw
            self._resumed_ns = now_ns()

    def _settle_time(self, now_ms: int) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        quotas = self._quotas
        use = quotas.request.use(self._user, self._client_id, now_ms)
        if use is None:
            return
        now_ns = quotas.monotonic_ns()
        use.measure.record((self._busy_ns + now_ns - self._resumed_ns) / NS_PER_PERCENT, now_ms)
        self._resumed_ns = now_ns
        self._timed = use
        self._ask_for(min(use.measure.throttle_ms(use.limit, now_ms), quotas.windows.size_ms), use)

    def _ask_for(self, throttle_ms: int, use: Use[Any]) -> None:
        if throttle_ms > self._throttle_ms:
            self._throttle_ms = throttle_ms
            self._throttled = use
