"""Metrics that clients push: who is to push what, what the payload says, what is kept of it."""
