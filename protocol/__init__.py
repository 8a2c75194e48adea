"""The Kafka wire protocol, sans-io: bytes in, messages out and back."""
