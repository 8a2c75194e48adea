"""Files shown as Apache Kafka's DumpLogSegments shows them, or as JSON lines."""
