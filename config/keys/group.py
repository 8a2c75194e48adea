"""Keys of single groups, with the broker keys that supply their defaults."""

from __future__ import annotations

from config.key import ConfigKey, Synonym
from config.keys.rows import (
    INT,
    OFFSET_RESET,
    STRING,
    group,
)
from config.validators import OneOf, Range

KEYS: tuple[ConfigKey, ...] = (
    group(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        Range(0),
        "Shortest time between two assignments of this consumer group; 0 = no bound.",
        (Synonym("group.consumer.assignment.interval.ms"),),
    ),
    group(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        Range(1),
        "Heartbeat period given to members of this consumer group.",
        (Synonym("group.consumer.heartbeat.interval.ms"),),
    ),
    group(
        "consumer.session.timeout.ms",
        INT,
        45_000,
        Range(1),
        "Silence after which a member of this consumer group is removed.",
        (Synonym("group.consumer.session.timeout.ms"),),
    ),
    group("share.auto.offset.reset", STRING, "latest", OFFSET_RESET, "Where a share group without state begins."),
    group(
        "share.heartbeat.interval.ms",
        INT,
        5000,
        Range(1),
        "Heartbeat period given to members of this share group.",
        (Synonym("group.share.heartbeat.interval.ms"),),
    ),
    group(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        "Whether a share group sees records of undecided transactions.",
    ),
    group(
        "share.record.lock.duration.ms",
        INT,
        30_000,
        Range(1000),
        "Time a record stays acquired by one member of this share group.",
        (Synonym("group.share.record.lock.duration.ms"),),
    ),
    group(
        "share.session.timeout.ms",
        INT,
        45_000,
        Range(1),
        "Silence after which a member of this share group is removed.",
        (Synonym("group.share.session.timeout.ms"),),
    ),
    group(
        "streams.heartbeat.interval.ms",
        INT,
        5000,
        Range(1),
        "Heartbeat period given to members of this streams group.",
        (Synonym("group.streams.heartbeat.interval.ms"),),
    ),
    group(
        "streams.initial.rebalance.delay.ms",
        INT,
        3000,
        Range(0),
        "Time this streams group, when empty, waits for more members.",
        (Synonym("group.streams.initial.rebalance.delay.ms"),),
    ),
    group(
        "streams.num.standby.replicas",
        INT,
        0,
        Range(0),
        "Standby replicas of each task of this streams group.",
        (Synonym("group.streams.num.standby.replicas"),),
    ),
    group(
        "streams.session.timeout.ms",
        INT,
        45_000,
        Range(1),
        "Silence after which a member of this streams group is removed.",
        (Synonym("group.streams.session.timeout.ms"),),
    ),
)
