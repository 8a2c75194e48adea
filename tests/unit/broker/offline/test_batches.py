"""The walk over batches that nobody vouches for."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.offline import batches as walk
from broker.offline.batches import BatchFile, StoredBatch
from storage.env.posix import PosixFileSystem
from tests.harness import batches
from tests.harness.legacy_sets import GOLDEN

SMALL = b"".join(batches.simple("a" * 10, "b", base_offset=2 * number) for number in range(50))


def walked(path: Path, content: bytes, **options: int) -> tuple[BatchFile, list[StoredBatch], list[bytes | None]]:
    """Walk a file with that content; give the walk, its batches and the bytes of each."""
    path.write_bytes(content)
    file = BatchFile(PosixFileSystem(), str(path), **options)
    found, data = [], []
    for batch in file:
        found.append(batch)
        data.append(None if batch.data is None else bytes(batch.data))
    return file, found, data


@pytest.mark.parametrize("window_bytes", [61, 100, 333, 1 << 20])
def test_every_batch_comes_whole_whatever_the_window(tmp_path: Path, window_bytes: int) -> None:
    content = SMALL + batches.of_size(5000, base_offset=100) + batches.simple("z", base_offset=101)
    file, found, data = walked(tmp_path / "log", content, window_bytes=window_bytes)
    assert b"".join(piece or b"" for piece in data) == content
    assert [batch.header.base_offset for batch in found] == [*range(0, 100, 2), 100, 101]
    assert all(batch.is_valid for batch in found)
    assert (file.end, file.damage) == (len(content), "")


@pytest.mark.parametrize("cut", [1, 16, 40, 61, 70])
def test_a_batch_that_is_cut_ends_the_walk(tmp_path: Path, cut: int) -> None:
    last = batches.simple("last", base_offset=100)
    file, found, _ = walked(tmp_path / "log", SMALL + last[:cut])
    assert (len(found), file.end) == (50, len(SMALL))
    assert file.damage and file.is_torn


def test_a_damaged_batch_is_shown_as_such_and_the_walk_goes_on(tmp_path: Path) -> None:
    damaged = bytearray(SMALL)
    damaged[70] ^= 1
    file, found, _ = walked(tmp_path / "log", bytes(damaged))
    assert [batch.is_valid for batch in found] == [False] + [True] * 49
    assert file.damage == ""


def test_an_impossible_length_ends_the_walk(tmp_path: Path) -> None:
    file, found, _ = walked(tmp_path / "log", SMALL + b"\xff" * 80)
    assert (len(found), file.end) == (50, len(SMALL))
    assert "batch length" in file.damage and not file.is_torn


def test_a_batch_of_too_many_bytes_is_checked_but_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MAX_HELD_BYTES", 4000)
    monkeypatch.setattr(walk, "WINDOW_BYTES", 1000)
    good = batches.of_size(5000)
    bad = bytearray(batches.of_size(5000, base_offset=1))
    bad[-1] ^= 1
    _, found, data = walked(tmp_path / "log", good + bad, window_bytes=1000)
    assert [batch.is_valid for batch in found] == [True, False]
    assert data == [None, None]


def test_a_length_that_the_file_does_not_have_costs_nothing(tmp_path: Path) -> None:
    head = bytearray(batches.simple("x"))
    head[8:12] = (2_000_000_000).to_bytes(4, "big")
    file, found, _ = walked(tmp_path / "log", bytes(head))
    assert found == []
    assert "is cut after" in file.damage


def test_old_formats_are_walked_too(tmp_path: Path) -> None:
    content = b"".join(GOLDEN.values())
    file, found, _ = walked(tmp_path / "log", content)
    assert {batch.header.magic for batch in found} == {0, 1}
    assert all(batch.is_valid for batch in found)
    assert file.end == len(content)


@pytest.mark.parametrize(("rest", "is_zero"), [(bytes(5000), True), (bytes(5000) + b"\1", False), (b"", True)])
def test_zeros_behind_the_batches_are_told_from_other_bytes(tmp_path: Path, rest: bytes, is_zero: bool) -> None:
    file, _, _ = walked(tmp_path / "log", SMALL + rest)
    assert file.is_zero_from_end(PosixFileSystem()) is is_zero
