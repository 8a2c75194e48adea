"""A small synchronous client of a Kafka cluster, for tools: blocking sockets, bounded waits, no threads."""
