"""Appending to and subtracting from lists."""

from __future__ import annotations

import pytest

from config.keys import BROKER_KEYS, TOPIC_KEYS
from config.operations import Operation, changed_list

POLICY = TOPIC_KEYS["cleanup.policy"]


@pytest.mark.parametrize(
    ("stored", "operation", "text", "after"),
    [
        (None, Operation.APPEND, "compact", "delete,compact"),
        (None, Operation.APPEND, "delete", "delete"),
        ("", Operation.APPEND, " compact", "compact"),
        ("compact", Operation.APPEND, "delete,compact,delete", "compact,delete"),
        ("compact", Operation.APPEND, "", "compact"),
        (None, Operation.SUBTRACT, "delete", ""),
        ("compact,delete", Operation.SUBTRACT, "delete,x", "compact"),
        ("compact", Operation.SUBTRACT, "delete", "compact"),
        ("", Operation.SUBTRACT, "compact", ""),
    ],
)
def test_a_list_has_each_element_once(stored, operation, text, after):
    assert changed_list(POLICY, stored, operation, text) == after


def test_a_key_without_default_starts_from_nothing():
    row = BROKER_KEYS["log.dirs"]
    assert changed_list(row, None, Operation.APPEND, "/a,/b") == "/a,/b"
