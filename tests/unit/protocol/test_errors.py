"""The error table: complete, without duplicates, and with Kafka's retriable flags."""

import pytest

from protocol.errors import ErrorCode

RETRIABLE = {2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103}
RETRIABLE |= {106, 122, 123, 133}


def test_the_table_covers_every_code_from_minus_one_to_133() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_retriable_flags_are_those_of_the_reference() -> None:
    assert {int(code) for code in ErrorCode if code.retriable} == RETRIABLE


def test_names_agree_with_kio() -> None:
    kio = pytest.importorskip("kio.schema.errors").ErrorCode
    ours = {code.value: code.name.lower() for code in ErrorCode}
    for theirs in kio:
        assert ours[theirs.value] == theirs.name


def test_every_row_has_a_sentence() -> None:
    for code in ErrorCode:
        assert code.text.endswith(".")
