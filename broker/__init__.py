"""The broker: the async shell around protocol, storage and config."""

from native import prefer_compiled

prefer_compiled()
