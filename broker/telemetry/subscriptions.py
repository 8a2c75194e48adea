"""Which clients are to push which metrics how often, and whether one that asks or pushes keeps to it.

Subscriptions are configs of client metrics resources. A client is an instance by its id; what it is to push follows
from every subscription that matches it. Instances are forgotten after three intervals of silence, and the one that was
silent longest when there are too many.

Source: KIP-714; ClientMetricsManager, ClientMetricsInstance, ClientMetricsInstanceMetadata.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from config.errors import InvalidConfig
from config.key import ConfigType, parse_value
from config.keys import CLIENT_METRICS_KEYS
from config.resource_changes import client_patterns
from protocol.errors import ErrorCode
from protocol.uuids import ZERO_UUID, format_uuid, random_uuid

logger = logging.getLogger(__name__)

MAX_INSTANCES = 16_384
SHORTEST_MEMORY_MS = 60_000
ALL_METRICS = "*"
ACCEPTED_CODECS = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: the best first. Uncompressed is always taken."""

MAX_MATCHED_LENGTH = 1024
"""What a client says of itself in more characters matches no pattern."""

RESERVED_IDS = frozenset({ZERO_UUID, (1).to_bytes(16, "big")})

_DEFAULT_INTERVAL_MS: int = CLIENT_METRICS_KEYS["interval.ms"].default


class Client(NamedTuple):
    """What patterns of subscriptions are held against."""

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int


class Subscription(NamedTuple):
    """What clients that match every pattern are to push."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]


class Refused(Exception):
    """A request of a client is refused; `code` is what it is told."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.text)
        self.code = code


class Instance:
    """One client, and what it is subscribed to as of one version of the subscriptions."""

    __slots__ = (
        "client",
        "got_at_ms",
        "instance_id",
        "interval_ms",
        "last_error",
        "metrics",
        "pushed_at_ms",
        "seen_at_ms",
        "subscription_id",
        "terminating",
        "version",
    )

    def __init__(self, instance_id: bytes, client: Client) -> None:
        self.instance_id = instance_id
        self.client = client
        self.version = -1
        self.metrics: tuple[str, ...] = ()
        self.interval_ms = _DEFAULT_INTERVAL_MS
        self.subscription_id = 0
        self.seen_at_ms = 0.0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.got_at_ms = self.pushed_at_ms = float("-inf")
        self.last_error = ErrorCode.NONE
        self.terminating = False

    @property
    def name(self) -> str:
        """Return the id as people see it."""
        return format_uuid(self.instance_id)

    def subscribe(self, subscriptions: Iterable[Subscription], version: int) -> None:
        """Take up what the subscriptions say; a change is told to the client at once, whenever it asks."""
        wanted: dict[str, None] = {}
        self.interval_ms = _DEFAULT_INTERVAL_MS
        for one in subscriptions:
            if self._matches(one):
                wanted.update(dict.fromkeys(one.metrics))
                self.interval_ms = min(self.interval_ms, one.interval_ms)
        self.metrics = (ALL_METRICS,) if ALL_METRICS in wanted else tuple(wanted)
        said = f"{sorted(self.metrics)}{self.interval_ms}".encode() + self.instance_id
        self.subscription_id = int.from_bytes(zlib.crc32(said).to_bytes(4, "big"), "big", signed=True)
        self.version = version
        self._begin_anew()

    def _matches(self, subscription: Subscription) -> bool:
        facts = {
            "client_instance_id": self.name,
            "client_id": self.client.client_id,
            "client_software_name": self.client.software_name,
            "client_software_version": self.client.software_version,
            "client_source_address": self.client.address,
            "client_source_port": str(self.client.port),
        }
        return all(
            len(facts[name]) <= MAX_MATCHED_LENGTH and pattern.fullmatch(facts[name]) is not None
            for name, pattern in subscription.patterns.items()
        )

    def ask(self, now_ms: float) -> None:
        """Admit a question for the subscription. Raises Refused when it comes too early."""
        is_due = now_ms - max(self.got_at_ms, self.pushed_at_ms) >= self.interval_ms
        if is_due:
            self.got_at_ms = now_ms
        elif self.last_error not in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.last_error = ErrorCode.NONE

    def push(
        self, subscription_id: int, codec: int, size: int, now_ms: float, *, max_bytes: int, terminating: bool
    ) -> None:
        """Admit a push. Raises Refused.

        The first one after the question may come at any time, since clients spread their pushes; a last one as well.
        """
        was_terminating, self.terminating = self.terminating, terminating
        try:
            if was_terminating:
                raise Refused(ErrorCode.INVALID_REQUEST)
            is_due = self.got_at_ms > self.pushed_at_ms or now_ms - self.pushed_at_ms >= self.interval_ms
            if is_due:
                self.pushed_at_ms = now_ms
            elif not terminating:
                raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            if subscription_id != self.subscription_id:
                raise Refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
            if codec != 0 and codec not in ACCEPTED_CODECS:
                raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            if size > max_bytes:
                raise Refused(ErrorCode.TELEMETRY_TOO_LARGE)
        except Refused as refusal:
            self.last_error = refusal.code
            raise
        self.last_error = ErrorCode.NONE


class Subscriptions:
    """All subscriptions, and the instances they are held against."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        on_forgotten: Callable[[str], None],
    ) -> None:
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._on_forgotten = on_forgotten
        self._subscriptions: tuple[Subscription, ...] = ()
        # Raised with every change: instances of an older version are held against the subscriptions anew.
        self._version = 0
        # By id, the one that was silent longest first.
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._instances)

    def update(self, configs: Iterable[Mapping[str, str]]) -> None:
        """Replace the subscriptions by what their configs say."""
        self._subscriptions = tuple(one for one in map(subscription_of, configs) if one is not None)
        self._version += 1

    def instance(self, instance_id: bytes, client: Client) -> Instance:
        """Return the instance of a client, a new one for the zero id; it counts as heard of."""
        now_ms = self._now_ms()
        self._forget_silent(now_ms)
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(self._random_bytes)
        found = self._instances.get(instance_id)
        if found is None:
            if len(self._instances) == MAX_INSTANCES:
                self._forget(next(iter(self._instances)))
            found = self._instances[instance_id] = Instance(instance_id, client)
        if found.version != self._version:
            found.subscribe(self._subscriptions, self._version)
        found.seen_at_ms = now_ms
        self._instances.move_to_end(instance_id)
        return found

    def _forget_silent(self, now_ms: float) -> None:
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if now_ms - oldest.seen_at_ms < max(SHORTEST_MEMORY_MS, 3 * oldest.interval_ms):
                return
            self._forget(oldest.instance_id)

    def _forget(self, instance_id: bytes) -> None:
        self._on_forgotten(self._instances.pop(instance_id).name)


def subscription_of(configs: Mapping[str, str]) -> Subscription | None:
    """Return what stored configs of a subscription say; None if another broker has stored a pattern we cannot read."""
    metrics = parse_value("metrics", ConfigType.LIST, configs.get("metrics", ""))
    interval_ms = int(configs.get("interval.ms", _DEFAULT_INTERVAL_MS))
    try:
        return Subscription(metrics, interval_ms, client_patterns(configs.get("match", "")))
    except InvalidConfig as fault:
        logger.warning("subscription of client metrics is ignored: %s", fault)
        return None
