"""Quotas: how much a client may do, how much it has done lately, and how long it has to wait therefore."""
