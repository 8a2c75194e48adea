"""Kafka's log on disk: synchronous, over an injected file system and clock."""

from native import prefer_compiled

prefer_compiled()
