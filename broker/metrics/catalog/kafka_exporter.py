"""The family under the names of kafka_exporter: brokers, partitions and the lag of groups, as a client sees them."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Kind, Metric

_row = partial(Metric, Family.KAFKA_EXPORTER)

_PARTITION = ("topic", "partition")
_GROUP = ("consumergroup",)
_TOPIC_OF_GROUP = ("consumergroup", "topic")
_PARTITION_OF_GROUP = ("consumergroup", "topic", "partition")

BROKERS = _row("kafka_brokers", Kind.GAUGE, "Brokers of the cluster that serve clients")
BROKER_INFO = _row(
    "kafka_broker_info", Kind.GAUGE, "1 for each broker, with the address clients use", ("id", "address")
)
TOPIC_PARTITIONS = _row("kafka_topic_partitions", Kind.GAUGE, "Partitions of the topic", ("topic",))
CURRENT_OFFSET = _row(
    "kafka_topic_partition_current_offset",
    Kind.GAUGE,
    "Where consumers find the end of the partition: its high watermark, or the first record below it that a scheduled "
    "topic holds back",
    _PARTITION,
)
OLDEST_OFFSET = _row(
    "kafka_topic_partition_oldest_offset", Kind.GAUGE, "First offset of the partition that can be read", _PARTITION
)
LEADER = _row(
    "kafka_topic_partition_leader",
    Kind.GAUGE,
    "Id of the broker that leads the partition; no series while nobody does",
    _PARTITION,
)
REPLICAS = _row("kafka_topic_partition_replicas", Kind.GAUGE, "Replicas of the partition", _PARTITION)
IN_SYNC_REPLICAS = _row(
    "kafka_topic_partition_in_sync_replica", Kind.GAUGE, "Replicas of the partition that are in sync", _PARTITION
)
LEADER_IS_PREFERRED = _row(
    "kafka_topic_partition_leader_is_preferred",
    Kind.GAUGE,
    "1 while the first of the partition's replicas leads it, else 0",
    _PARTITION,
)
UNDER_REPLICATED = _row(
    "kafka_topic_partition_under_replicated_partition",
    Kind.GAUGE,
    "1 while fewer replicas of the partition are in sync than there are, else 0",
    _PARTITION,
)
GROUP_OFFSET = _row(
    "kafka_consumergroup_current_offset",
    Kind.GAUGE,
    "Offset the group has committed; -1 where it has committed only for other partitions of the topic",
    _PARTITION_OF_GROUP,
)
GROUP_OFFSET_SUM = _row(
    "kafka_consumergroup_current_offset_sum",
    Kind.GAUGE,
    "Sum of the offsets the group has committed in the topic",
    _TOPIC_OF_GROUP,
)
GROUP_LAG = _row(
    "kafka_consumergroup_lag",
    Kind.GAUGE,
    "Offsets between what the group has committed and the end of the partition; -1 where it has committed nothing, "
    "negative too where it has committed beyond the end",
    _PARTITION_OF_GROUP,
)
GROUP_LAG_SUM = _row(
    "kafka_consumergroup_lag_sum",
    Kind.GAUGE,
    "Sum of the group's lag over the partitions of the topic for which it has committed",
    _TOPIC_OF_GROUP,
)
GROUP_MEMBERS = _row("kafka_consumergroup_members", Kind.GAUGE, "Members of the group", _GROUP)
