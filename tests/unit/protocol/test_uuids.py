"""Uuids: text form there and back, and what a random one may not be."""

import pytest

from protocol.uuids import ONE_UUID, ZERO_UUID, format_uuid, parse_uuid, random_uuid


def test_known_text_forms() -> None:
    assert format_uuid(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert format_uuid(ONE_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_text_form_is_read_back() -> None:
    raw = bytes(range(200, 216))
    assert parse_uuid(format_uuid(raw)) == raw


@pytest.mark.parametrize("text", ["", "short", "A" * 23, "A" * 21 + "=", "A" * 21 + "+", "ä" * 22])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        parse_uuid(text)


def test_a_random_uuid_is_version_4_and_never_begins_with_a_dash() -> None:
    draws = iter([b"\xfb" + bytes(15), b"\xf8" + bytes(15), bytes(16)])
    drawn = random_uuid(lambda size: next(draws)[:size])
    assert drawn == bytes(6) + b"\x40\x00\x80" + bytes(7)
    assert not format_uuid(drawn).startswith("-")
