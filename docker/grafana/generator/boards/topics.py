"""Topics: what goes into and out of each, how large it is, and its partitions."""

from __future__ import annotations

from shapes import Dashboard, Row, Variable, curves, of, per_second, quantiles, table

TOPIC = Variable("topic", 'kafka_log_log_size{job="odradek", instance=~"$instance"}', "topic", "Topic")
WANTED = 'topic=~"$topic"'


def by_topic(expr: str) -> str:
    """Give the largest of the sums by topic."""
    return f"topk(20, sum by (topic) ({expr}))"


SCHEDULED = Row(
    "Scheduled delivery",
    (
        curves(
            "Held back",
            "Offsets that are not visible yet, from the delivery watermark to the end of the log.",
            (by_topic(of("odradek_delivery_pending_records", WANTED)), "{{topic}}"),
            width=6,
        ),
        curves(
            "Next",
            "Time until a partition of the topic goes on. Above zero nothing is late.",
            (
                f"topk(20, min by (topic) ({of('odradek_delivery_next_timestamp_seconds', WANTED)}) - time())",
                "{{topic}}",
            ),
            unit="s",
            width=6,
        ),
        curves(
            "Lateness",
            "How long after their time and the clock's uncertainty batches became visible, of all topics.",
            *quantiles("odradek_delivery_activation_lateness_seconds"),
            unit="s",
            width=6,
        ),
        curves(
            "Passes",
            "How often the scheduler looked for what has come due, in a second.",
            (f"sum by (instance) ({per_second('odradek_delivery_scheduler_wakeups_total')})", "{{instance}}"),
            unit="ops",
            width=6,
        ),
    ),
)

BOARD = Dashboard(
    "odradek-topics",
    "Odradek: topics",
    "What goes into and out of each topic, how large it is, and its partitions. Curves show the 20 largest.",
    (
        Row(
            "Traffic",
            (
                curves(
                    "Bytes in",
                    "Bytes of batches appended in a second.",
                    (by_topic(per_second("kafka_server_brokertopicmetrics_bytesin_total", WANTED)), "{{topic}}"),
                    unit="Bps",
                ),
                curves(
                    "Bytes out",
                    "Bytes of batches that were fetched in a second, by consumers and whoever else.",
                    (by_topic(per_second("kafka_server_brokertopicmetrics_bytesout_total", WANTED)), "{{topic}}"),
                    unit="Bps",
                ),
                curves(
                    "Records in",
                    "Records appended in a second.",
                    (by_topic(per_second("kafka_server_brokertopicmetrics_messagesin_total", WANTED)), "{{topic}}"),
                    unit="suffix: rec/s",
                ),
            ),
        ),
        Row(
            "Size",
            (
                curves(
                    "Bytes",
                    "Bytes of all segments of a topic.",
                    (by_topic(of("kafka_log_log_size", WANTED)), "{{topic}}"),
                    unit="bytes",
                    stacked=True,
                    width=12,
                ),
                curves(
                    "Records",
                    "Offsets between the start and the end of the logs; of a compacted topic there are fewer records.",
                    (
                        by_topic(
                            f"{of('kafka_log_log_logendoffset', WANTED)} - {of('kafka_log_log_logstartoffset', WANTED)}"
                        ),
                        "{{topic}}",
                    ),
                    width=12,
                ),
                curves(
                    "Segments",
                    "Segments of all partitions; each has open files and indexes.",
                    (by_topic(of("kafka_log_log_numlogsegments", WANTED)), "{{topic}}"),
                    width=12,
                ),
                curves(
                    "Oldest record",
                    "Age of the first record that is kept, by the timestamp it bears.",
                    (
                        f"topk(20, time() - min by (topic) ({of('odradek_log_oldest_timestamp_seconds', WANTED)}))",
                        "{{topic}}",
                    ),
                    unit="s",
                    width=12,
                ),
            ),
        ),
        SCHEDULED,
        Row(
            "Partitions",
            (
                table(
                    "Topics",
                    "Each topic with its partitions and size.",
                    (
                        ("topic", "Topic", ""),
                        ("Value #A", "Partitions", ""),
                        ("Value #B", "Bytes", "bytes"),
                        ("Value #C", "Segments", ""),
                        ("Value #D", "Records in a second", "suffix: rec/s"),
                    ),
                    f"count by (topic) ({of('kafka_log_log_size', WANTED)})",
                    f"sum by (topic) ({of('kafka_log_log_size', WANTED)})",
                    f"sum by (topic) ({of('kafka_log_log_numlogsegments', WANTED)})",
                    f"sum by (topic) ({per_second('kafka_server_brokertopicmetrics_messagesin_total', WANTED)})",
                ),
                table(
                    "Partitions",
                    "Each partition with its offsets; choose a topic above.",
                    (
                        ("topic", "Topic", ""),
                        ("partition", "Partition", ""),
                        ("Value #A", "Start offset", "none"),
                        ("Value #B", "End offset", "none"),
                        ("Value #C", "Bytes", "bytes"),
                    ),
                    f"max by (topic, partition) ({of('kafka_log_log_logstartoffset', WANTED)})",
                    f"max by (topic, partition) ({of('kafka_log_log_logendoffset', WANTED)})",
                    f"max by (topic, partition) ({of('kafka_log_log_size', WANTED)})",
                    height=12,
                ),
            ),
        ),
    ),
    (TOPIC,),
)
