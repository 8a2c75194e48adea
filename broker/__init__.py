"""The broker: the async shell around protocol, storage and config."""
