"""Coordinators: state machines over internal topics."""
