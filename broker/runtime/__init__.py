"""Owned tasks, the timer queue and thread pools."""
