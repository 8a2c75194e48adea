"""Small text files Kafka keeps in log directories."""
