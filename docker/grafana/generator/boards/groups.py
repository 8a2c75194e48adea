"""Groups and transactions: who reads, how far behind it is, and what the coordinators do."""

from __future__ import annotations

from shapes import RED, YELLOW, Dashboard, Row, Variable, curves, of, per_second, quantiles, stat, table

GROUP = Variable("group", 'kafka_consumergroup_members{job="odradek", instance=~"$instance"}', "consumergroup", "Group")
WANTED = 'consumergroup=~"$group"'
LAG_SUM = of("kafka_consumergroup_lag_sum", WANTED)
LAG_SECONDS = of("odradek_consumer_group_lag_seconds", WANTED)
FAILED = "sum(" + of("odradek_coordinator_partitions", 'state="failed"') + ")"
OPEN = "sum(" + of("odradek_transaction_transactional_ids", 'state="Ongoing"') + ") or vector(0)"

STATE = Row(
    "Now",
    (
        stat(
            "Groups",
            "Groups that the broker knows, those without members included.",
            f"sum({of('kafka_coordinator_group_groupmetadatamanager_numgroups')})",
        ),
        stat(
            "Members",
            "Members of the chosen groups.",
            f"sum({of('kafka_consumergroup_members', WANTED)})",
        ),
        stat(
            "Furthest behind",
            "How long the first record that one of the chosen groups has not committed has been waiting.",
            f"max({of('odradek_consumer_group_max_lag_seconds', WANTED)})",
            unit="s",
            thresholds=((60, YELLOW), (300, RED)),
        ),
        stat(
            "Partitions not loaded",
            "Partitions of the coordinators' topics that could not be replayed: what lies there is not served.",
            FAILED,
            thresholds=((1, RED),),
        ),
        stat(
            "Open transactions",
            "Transactions that are neither committed nor aborted.",
            OPEN,
        ),
        stat(
            "Markers waiting",
            "Transaction markers that could not be written yet; readers of committed data stop there.",
            f"sum({of('odradek_transaction_markers_waiting')})",
            thresholds=((1, YELLOW),),
        ),
    ),
)
READING = Row(
    "Lag",
    (
        curves(
            "Time behind",
            "How long the first record that is not committed has been waiting; the 20 that are furthest behind.",
            (f"topk(20, max by (consumergroup, topic) ({LAG_SECONDS}))", "{{consumergroup}} · {{topic}}"),
            unit="s",
        ),
        curves(
            "Records behind",
            "Records from the committed offset to the end, summed over partitions; the 20 that are furthest behind.",
            (f"topk(20, sum by (consumergroup, topic) ({LAG_SUM}))", "{{consumergroup}} · {{topic}}"),
        ),
        curves(
            "Records read",
            "How fast committed offsets move on.",
            (
                "topk(20, sum by (consumergroup, topic) "
                f"(rate({of('kafka_consumergroup_current_offset_sum', WANTED)}[$__rate_interval])))",
                "{{consumergroup}} · {{topic}}",
            ),
            unit="suffix: rec/s",
        ),
        table(
            "Groups",
            "Each of the chosen groups.",
            (
                ("consumergroup", "Group", ""),
                ("Value #A", "Members", "none"),
                ("Value #B", "Time behind", "s"),
                ("Value #C", "Records behind", "none"),
                ("Value #D", "Last commit", "dateTimeFromNow"),
            ),
            f"max by (consumergroup) ({of('kafka_consumergroup_members', WANTED)})",
            f"max by (consumergroup) ({of('odradek_consumer_group_max_lag_seconds', WANTED)})",
            f"sum by (consumergroup) ({LAG_SUM})",
            f"max by (consumergroup) ({of('odradek_consumer_group_last_commit_timestamp_seconds', WANTED)}) * 1000",
        ),
        table(
            "Partitions",
            "Each partition of the chosen groups.",
            (
                ("consumergroup", "Group", ""),
                ("topic", "Topic", ""),
                ("partition", "Partition", ""),
                ("Value #A", "Committed", "none"),
                ("Value #B", "Records behind", "none"),
                ("Value #C", "Time behind", "s"),
            ),
            f"max by (consumergroup, topic, partition) ({of('kafka_consumergroup_current_offset', WANTED)})",
            f"max by (consumergroup, topic, partition) ({of('kafka_consumergroup_lag', WANTED)})",
            f"max by (consumergroup, topic, partition) ({LAG_SECONDS})",
        ),
    ),
)
MEMBERS = Row(
    "Groups",
    (
        curves(
            "Groups by state",
            "Empty groups have committed offsets and no members.",
            (f"sum by (state) ({of('kafka_coordinator_group_groupmetadatamanager_numgroups')})", "{{state}}"),
            stacked=True,
        ),
        curves(
            "Rebalances",
            "Of classic groups those that came to an assignment, of consumer groups every new epoch.",
            (
                f"sum by (protocol) ({per_second('kafka_server_groupcoordinatormetrics_rebalance_count_total')})",
                "{{protocol}}",
            ),
            unit="ops",
        ),
        curves(
            "Offsets",
            "Committed, expired and deleted in a second.",
            (f"sum({per_second('kafka_server_groupcoordinatormetrics_offset_commit_count_total')})", "committed"),
            (f"sum({per_second('kafka_server_groupcoordinatormetrics_offset_expiration_count_total')})", "expired"),
            (f"sum({per_second('kafka_server_groupcoordinatormetrics_offset_deletion_count_total')})", "deleted"),
            unit="ops",
        ),
    ),
)
TRANSACTIONS = Row(
    "Transactions and coordinators",
    (
        curves(
            "Transactional ids",
            "By the state of their last transaction.",
            (f"sum by (state) ({of('odradek_transaction_transactional_ids')})", "{{state}}"),
            stacked=True,
        ),
        curves(
            "Transactions that took too long",
            "Aborted by the broker because they were open for longer than their timeout.",
            (f"sum({per_second('odradek_transaction_timed_out_total')})", "timed out"),
            unit="ops",
        ),
        curves(
            "Writes of coordinators",
            "From a command's records to their replay, the flushes that settings ask for included.",
            *quantiles("odradek_coordinator_write_seconds", by="coordinator", legend="{{coordinator}} "),
            unit="s",
        ),
    ),
)
BOARD = Dashboard(
    "odradek-groups",
    "Odradek: groups and transactions",
    "Who reads, how far behind it is, and what the coordinators do.",
    (STATE, READING, MEMBERS, TRANSACTIONS),
    (GROUP,),
)
