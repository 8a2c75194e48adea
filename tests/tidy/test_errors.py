"""The table of errors is complete: whatever a room may refuse has a code, so nobody is told of an unknown failure."""

from __future__ import annotations

from types import ModuleType

import pytest

import broker.coordinator.errors
import broker.coordinator.transaction.errors
import broker.metadata.errors
import broker.partition.errors
import storage.errors
from broker.api.errors import TABLE
from broker.coordinator.errors import Told
from broker.coordinator.transaction.errors import ProducerIdNeeded

ROOMS = (
    broker.coordinator.errors,
    broker.coordinator.transaction.errors,
    broker.metadata.errors,
    broker.partition.errors,
    storage.errors,
)
NEVER_TOLD = {ProducerIdNeeded}
"""Caught where the command is run again with what it needs."""


def refusals(room: ModuleType) -> list[type[Exception]]:
    """Give the classes that are raised; those with classes below them only name a kind."""
    found = [one for one in vars(room).values() if isinstance(one, type) and issubclass(one, Exception)]
    return [one for one in found if one.__module__ == room.__name__ and not one.__subclasses__()]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_refusal_has_a_code(room: ModuleType) -> None:
    assert refusals(room)
    missing = {one for one in refusals(room) if not issubclass(one, Told) and not TABLE.keys() & set(one.__mro__)}
    assert missing <= NEVER_TOLD
