"""Schemas kept in logs and files, never sent as requests."""
