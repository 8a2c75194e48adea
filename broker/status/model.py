"""What the status page says, as plain values: read on the loop, sorted and rendered anywhere.

A rate is None where nothing has been measured yet. Fractions are between 0 and 1.
"""

from enum import Enum
from typing import NamedTuple

from broker.runtime.recent_lines import RecentLine


class Level(Enum):
    """How much something should worry a human."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class Trouble(NamedTuple):
    """Something that is wrong, in words."""

    level: Level
    text: str


class Identity(NamedTuple):
    """Who answers."""

    node_id: int
    cluster_id: str
    version: str
    form: str
    listeners: tuple[str, ...]
    uptime_seconds: float
    now_ms: int


class Health(NamedTuple):
    """Whether all is well: `phase` is the step of start or stop, or "running"."""

    phase: str
    troubles: tuple[Trouble, ...]

    @property
    def is_ready(self) -> bool:
        """Tell whether clients are served."""
        return self.phase == "running"

    @property
    def level(self) -> Level:
        """Give the worst of all troubles."""
        levels = {trouble.level for trouble in self.troubles}
        return next((level for level in (Level.BAD, Level.WARN) if level in levels), Level.OK)


class Series(NamedTuple):
    """One measure of the last minutes, a second, oldest first; samples are `interval_seconds` apart."""

    name: str
    unit: str
    values: tuple[float, ...]
    interval_seconds: float

    @property
    def now(self) -> float | None:
        """Give the newest value."""
        return self.values[-1] if self.values else None


class TopicRow(NamedTuple):
    """One topic, its partitions added up."""

    name: str
    partition_count: int
    offline_count: int
    segment_count: int
    size_bytes: int
    record_count: int
    """Offsets between log starts and high watermarks; compacted logs and transactions have fewer records."""
    records_in: float | None
    bytes_in: float | None
    bytes_out: float | None
    pending_count: int | None = None
    """Offsets that are not visible yet; None unless the topic is scheduled, as of its partitions."""


class PartitionRow(NamedTuple):
    """One partition of a topic; what only a log can tell is None where it is offline."""

    number: int
    leader: int | None
    log_dir: str
    log_start_offset: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None
    segment_count: int | None = None
    size_bytes: int | None = None
    pending_count: int | None = None
    next_ms: int | None = None
    """When the first of these becomes visible."""


class GroupRow(NamedTuple):
    """One group; the lag is over all partitions it has committed offsets of."""

    group_id: str
    kind: str
    state: str
    member_count: int
    partition_count: int
    lag: int


class MemberRow(NamedTuple):
    """One member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[str, ...]
    """Each a topic with its partitions; empty also where the group's protocol is not ours to read."""


class OffsetRow(NamedTuple):
    """What a group has committed of one partition; no end where the partition is not served here."""

    topic: str
    partition: int
    committed_offset: int
    log_end_offset: int | None
    """Where consumers find the end."""
    lag: int | None


class DirRow(NamedTuple):
    """One log directory; its logs are not known before they are served, its room before it was looked at."""

    path: str
    is_online: bool
    is_cordoned: bool
    reason: str
    log_count: int | None
    size_bytes: int | None
    total_bytes: int | None
    usable_bytes: int | None


class MoveRow(NamedTuple):
    """One partition on its way to another directory."""

    partition: str
    source: str
    destination: str
    done_bytes: int
    left_bytes: int
    bytes_per_second: float
    left_seconds: float | None
    failure: str


class Job(NamedTuple):
    """One kind of background work; `progress` is that of what runs now, where it can be told."""

    name: str
    state: str
    detail: str
    progress: float | None = None


class Schedule(NamedTuple):
    """Scheduled delivery, over all partitions that have it."""

    partition_count: int
    holding_count: int
    """Of these, how many hold something back."""
    pending_count: int
    next_ms: int | None
    released_count: int
    """Batches that were waited for since the start."""
    mean_lateness_seconds: float | None


class Inventory(NamedTuple):
    """Everything there is, in no order; a thread sorts it and takes what is shown."""

    topics: tuple[TopicRow, ...]
    groups: tuple[GroupRow, ...]
    groups_reason: str
    """Why the groups cannot be told; empty when they can."""
    log_dirs: tuple[DirRow, ...]
    schedule: Schedule | None = None
    """None where no topic is scheduled."""


class Frame(NamedTuple):
    """What every page has around its own contents."""

    identity: Identity
    health: Health


class Overview(NamedTuple):
    """The first page."""

    frame: Frame
    traffic: tuple[Series, ...]
    inventory: Inventory
    connection_count: int
    busy_share: float
    """Of the one thread that does all the work, in the last minute."""
    moves: tuple[MoveRow, ...]
    move_count: int
    jobs: tuple[Job, ...]
    lines: tuple[RecentLine, ...]


class TopicDetail(NamedTuple):
    """One topic and its partitions."""

    frame: Frame
    name: str
    partitions: tuple[PartitionRow, ...]


class GroupDetail(NamedTuple):
    """One group, some of its members, and its offsets."""

    frame: Frame
    group: GroupRow
    protocol: str
    members: tuple[MemberRow, ...]
    offsets: tuple[OffsetRow, ...]
