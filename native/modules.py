"""Which modules are compiled: those on the way of every produce and fetch request, and the walk of compaction.

What they need of mypyc's language, beyond what `mypy --strict` asks for: in one function, no two `except … as` of
different types under one name; no class that extends a built-in one other than Exception; no attributes that are not
declared; no attribute of ours asked for None in the function that has set it to None, whatever calls lie in between.
tests/tidy holds them to it as far as a program can see it.
"""

from __future__ import annotations

MODULES = (
    "broker.api.dispatch",
    "broker.api.fetch",
    "broker.api.fetch_sessions",
    "broker.api.fetch_short",
    "broker.api.produce",
    "broker.api.route",
    "broker.metrics.instruments",
    "broker.net.connection",
    "broker.net.outbox",
    "broker.partition.manager",
    "broker.partition.partition",
    "broker.partition.purgatory",
    "broker.quota.rates",
    "broker.runtime.tasks",
    "protocol.fast.fetch",
    "protocol.fast.produce",
    "protocol.frame",
    "protocol.headers",
    "protocol.records.batch",
    "protocol.records.errors",
    "protocol.records.keys",
    "protocol.records.scan",
    "protocol.records.varint",
    "storage.compaction.batches",
    "storage.compaction.offset_map",
    "storage.compaction.output",
    "storage.compaction.retain",
    "storage.compaction.rewrite",
    "storage.compaction.source",
    "storage.epochs.cache",
    "storage.log.append",
    "storage.log.batch_set",
    "storage.log.delivery",
    "storage.log.offsets",
    "storage.log.partition_log",
    "storage.log.reader",
    "storage.log.state",
    "storage.log.transactions",
    "storage.log.validator",
    "storage.producers.entry",
    "storage.producers.state",
    "storage.segment.index_file",
    "storage.segment.log_file",
    "storage.segment.offset_index",
    "storage.segment.open_files",
    "storage.segment.region",
    "storage.segment.segment",
    "storage.segment.segments",
    "storage.segment.sparse",
    "storage.segment.time_index",
    "storage.types",
)
