"""Kafka's log on disk: synchronous, over an injected file system and clock."""
