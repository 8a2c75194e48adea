"""The Kafka wire protocol, sans-io: bytes in, messages out and back."""

from native import prefer_compiled

prefer_compiled()
