"""Keys of the transaction coordinator and its topic."""

from __future__ import annotations

from config.key import ConfigKey
from config.keys.rows import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    SHORT,
    broker,
)
from config.validators import Range

KEYS: tuple[ConfigKey, ...] = (
    broker(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        Range(1),
        HIGH,
        "Longest transaction timeout a producer may ask for.",
    ),
    broker(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        Range(1),
        HIGH,
        "Idle time after which a transactional id is forgotten.",
    ),
    broker(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        Range(1),
        LOW,
        "Period of the search for transactions past their timeout.",
    ),
    broker(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        Range(1),
        LOW,
        "Period of the search for expired transactional ids.",
    ),
    broker(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether an append checks that its transaction is really open.",
        CLUSTER_WIDE,
    ),
    broker(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        Range(1),
        HIGH,
        "Bytes read at once while transaction state is loaded.",
    ),
    broker(
        "transaction.state.log.min.isr",
        INT,
        2,
        Range(1),
        HIGH,
        "In-sync replicas the transaction topic needs; a single node always uses one.",
    ),
    broker(
        "transaction.state.log.num.partitions",
        INT,
        50,
        Range(1),
        HIGH,
        "Partitions of the transaction topic; fixed once it exists.",
    ),
    broker(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        Range(1),
        HIGH,
        "Replicas of the transaction topic; a single node always uses one.",
    ),
    broker(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        Range(1),
        HIGH,
        "Segment size of the transaction topic.",
    ),
    broker(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        None,
        LOW,
        "Whether transactions may take part in a two-phase commit.",
    ),
    broker(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        Range(1),
        HIGH,
        "Pause before a partition is added to a transaction again.",
    ),
    broker(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        Range(0),
        HIGH,
        "Longest pause before a partition is added to a transaction again.",
    ),
)
