"""The offset map against a dictionary, at every filling and with colliding hashes."""

import random

import pytest

from storage.compaction import offset_map
from storage.compaction.offset_map import SLOT_BYTES, OffsetMap


def put(table, key, offset):
    assert not table.put_all([(offset, key)], table.slots + 1)


def test_an_unknown_key_has_no_offset():
    assert OffsetMap(1000).get(b"k") == -1


def test_the_memory_is_divided_into_slots_of_24_bytes():
    assert OffsetMap(1000).slots == 1000 // 24


@pytest.mark.parametrize("slots", [1, 2, 3, 17, 1000])
def test_a_map_filled_to_the_last_slot_answers_like_a_dictionary(slots):
    chance = random.Random(slots)
    keys = [chance.randbytes(chance.randint(0, 20)) for _ in range(slots * 3)]
    distinct = list(dict.fromkeys(keys))[:slots]
    table, known = OffsetMap(slots * SLOT_BYTES), {}
    for offset in range(slots * 5):
        key = chance.choice(distinct)
        put(table, key, offset)
        known[key] = offset
        assert table.entries == len(known)
    for key in keys:
        assert table.get(key) == known.get(key, -1)


def test_offset_zero_and_large_offsets_are_kept():
    table = OffsetMap(10 * SLOT_BYTES)
    put(table, b"a", 0)
    put(table, b"b", (1 << 63) - 1)
    assert (table.get(b"a"), table.get(b"b")) == (0, (1 << 63) - 1)


def test_keys_whose_first_words_collide_find_their_own_slots(monkeypatch):
    class Digest:
        def __init__(self, key: bytes, *, usedforsecurity: bool) -> None:
            self._key = key

        def digest(self) -> bytes:
            return b"\1" * 15 + self._key

    monkeypatch.setattr(offset_map, "md5", Digest)
    table = OffsetMap(20 * SLOT_BYTES)
    for n in range(20):
        put(table, bytes([n]), n)
    assert [table.get(bytes([n])) for n in range(21)] == [*range(20), -1]


def test_more_keys_than_slots_are_a_fault_of_the_caller():
    table = OffsetMap(2 * SLOT_BYTES)
    put(table, b"a", 1)
    put(table, b"b", 2)
    put(table, b"a", 3)
    with pytest.raises(AssertionError):
        put(table, b"c", 4)


def test_a_map_takes_records_until_it_has_all_the_entries_it_may_have():
    table = OffsetMap(20 * SLOT_BYTES)
    assert not table.put_all([(5, b"a"), (6, b"b"), (8, b"a")], 3)
    assert (table.entries, table.latest_offset) == (2, 8)
    assert table.put_all([(9, b"c"), (10, b"a"), (11, b"d")], 3), "a full map takes no record, whatever its key"
    assert (table.entries, table.latest_offset) == (3, 9)
    assert [table.get(key) for key in (b"a", b"b", b"c", b"d")] == [8, 6, 9, -1]
