"""Cluster metadata: the immutable image, its log and the controller."""
