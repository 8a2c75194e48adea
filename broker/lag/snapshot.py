"""What a look at all groups came to: columns of numbers, made once a scrape and read by all who show them."""

from __future__ import annotations

from collections import Counter

GroupLabels = tuple[str]
StateLabels = tuple[str, str, str]
TopicLabels = tuple[str, str]
PartitionLabels = tuple[str, str, str]


class LagSnapshot:
    """Columns of one kind are of the same length; a None stands where something is not known, or is not there."""

    __slots__ = (
        "commit_seconds",
        "committed",
        "counts",
        "epochs",
        "group_labels",
        "lags",
        "left_out",
        "max_lags",
        "max_seconds",
        "members",
        "oldest_labels",
        "oldest_seconds",
        "partition_labels",
        "seconds",
        "state_labels",
        "topic_committed",
        "topic_labels",
        "topic_lags",
    )

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()  # groups by kind and state
        # Of groups.
        self.group_labels: list[GroupLabels] = []
        self.state_labels: list[StateLabels] = []  # group, kind, state
        self.members: list[int] = []
        self.epochs: list[int] = []
        self.max_lags: list[int | None] = []
        self.max_seconds: list[float | None] = []
        self.commit_seconds: list[float | None] = []  # wall clock
        # Of the topics of groups.
        self.topic_labels: list[TopicLabels] = []  # group, topic
        self.topic_committed: list[int] = []
        self.topic_lags: list[int] = []
        # Of the partitions of groups.
        self.partition_labels: list[PartitionLabels] = []  # group, topic, partition
        self.committed: list[int] = []
        self.lags: list[int | None] = []
        self.seconds: list[float | None] = []
        self.left_out = {"groups": 0, "topics": 0, "partitions": 0}  # how many more there are of each
        # Of partitions, whoever reads them.
        self.oldest_labels: list[TopicLabels] = []  # topic, partition
        self.oldest_seconds: list[float] = []  # wall clock
